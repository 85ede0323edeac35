#ifndef STRATA_COMMON_TRANSPORT_REGION_LINE_H_
#define STRATA_COMMON_TRANSPORT_REGION_LINE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata::transport {

// How two processes of a host hand each other descriptors: a Unix socket whose abstract name
// follows from the TCP port that one of them listens at. A network namespace has its own ports and
// its own abstract names. Both sides must run as the same user.

// The one message of each side, with the descriptors of its segments and its board.
struct RegionGreeting {
  // The session's number, which the listening side chooses; 0 from the side that connects.
  uint64_t session = 0;
  // Read-only segments; the board last, writable.
  std::vector<UniqueFd> descriptors;
};

// Errors: AlreadyExists: another process of this host listens for that port.
absl::StatusOr<UniqueFd> ListenForRegions(int port);
// Invalid: nobody of the same user listens there.
UniqueFd ConnectForRegions(int port);
// The next one that has connected; invalid: none waits. Those of other users are turned away.
UniqueFd AcceptForRegions(const UniqueFd& listener);

// Never blocks. Errors: Unavailable.
absl::Status SendGreeting(const UniqueFd& line, const RegionGreeting& greeting);
// Nullopt: not there yet. Errors: InvalidArgument (something else), Unavailable (the end).
absl::StatusOr<std::optional<RegionGreeting>> TakeGreeting(const UniqueFd& line);
// Returns whether the peer needs none of our memory, or is gone.
bool HasEnded(const UniqueFd& line);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_LINE_H_
