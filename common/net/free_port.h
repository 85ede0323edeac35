#ifndef STRATA_COMMON_NET_FREE_PORT_H_
#define STRATA_COMMON_NET_FREE_PORT_H_

#include <cstdint>
#include <optional>

namespace strata {

// Returns a TCP port that nobody listens on now, for another program; some other process may take
// it first. None: the host has none.
std::optional<uint16_t> FreePort();

}  // namespace strata

#endif  // STRATA_COMMON_NET_FREE_PORT_H_
