#ifndef STRATA_CLI_WEB_HTTP_LISTEN_ADDRESS_H_
#define STRATA_CLI_WEB_HTTP_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::cli {

// An address at which a server listens. It is found once: a name may mean another one the next
// time, and what was decided of the first would not hold.
struct ListenAddress {
  std::string text;          // "127.0.0.1", "::1"
  bool is_loopback = false;  // no other host reaches it
  bool is_any = false;       // "0.0.0.0", "::": all that this host has, and none that one can go to
};

// The first address of a host, which is a name or an address already. Blocks while the name is
// looked up. Errors: Unavailable, with the host and why it has none.
absl::StatusOr<ListenAddress> ResolveListenAddress(const std::string& host);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_HTTP_LISTEN_ADDRESS_H_
