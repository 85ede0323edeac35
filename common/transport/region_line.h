#ifndef STRATA_COMMON_TRANSPORT_REGION_LINE_H_
#define STRATA_COMMON_TRANSPORT_REGION_LINE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata::transport {

// How two processes on a host exchange descriptors: over a Unix socket whose abstract name is
// derived from the TCP port on which one of them listens. A network namespace has its own ports and
// its own abstract names. Both must run as the same user.

// Each side's single message, with the descriptors of its segments and its board.
struct RegionGreeting {
  // The session's number, chosen by the listening side; 0 from the connecting side.
  uint64_t session = 0;
  // Read-only segments; the board last, writable.
  std::vector<UniqueFd> descriptors;
};

// Errors: AlreadyExists: another process of this host listens for that port.
absl::StatusOr<UniqueFd> ListenForRegions(int port);
// Invalid: no process of the same user listens there.
UniqueFd ConnectForRegions(int port);
// Returns the next connection; invalid: none waits. Those of other users are refused.
UniqueFd AcceptForRegions(const UniqueFd& listener);

// Never blocks. Errors: Unavailable.
absl::Status SendGreeting(const UniqueFd& line, const RegionGreeting& greeting);
// nullopt: not there yet. Errors: InvalidArgument (something else), Unavailable (closed).
absl::StatusOr<std::optional<RegionGreeting>> TakeGreeting(const UniqueFd& line);
// Returns whether the peer needs none of our memory, or is gone.
bool HasEnded(const UniqueFd& line);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_LINE_H_
