#ifndef STRATA_COMMON_OS_FREE_PORT_H_
#define STRATA_COMMON_OS_FREE_PORT_H_

#include <cstdint>
#include <optional>

namespace strata {

// Returns a TCP port that nobody listens on now, for another program that will; somebody else may
// take it before. None: the host has none.
std::optional<uint16_t> FreePort();

}  // namespace strata

#endif  // STRATA_COMMON_OS_FREE_PORT_H_
