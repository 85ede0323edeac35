#ifndef STRATA_WORKER_CONTRACT_RANK_SOCKET_H_
#define STRATA_WORKER_CONTRACT_RANK_SOCKET_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace strata::worker {

// Abstract Unix sockets: names that exist only as long as a process listens.

// Non-blocking. Errors: InvalidArgument (name), AlreadyExists.
absl::StatusOr<UniqueFd> ListenAt(const std::string& name);
// The next connection of a process of this user; others are closed unseen. Invalid: none waits.
UniqueFd AcceptFrom(const UniqueFd& listener);
// Tries until somebody listens. Errors: InvalidArgument (name), Unavailable (deadline).
absl::StatusOr<UniqueFd> ConnectTo(const std::string& name, absl::Duration deadline);

// The byte that follows Attach, see rank_protocol.proto. `memory` < 0: none ('E').
absl::Status SendDescriptors(int socket, int memory, int doorbell);
struct Descriptors {
  UniqueFd memory, doorbell;  // both invalid: the job ends, a message says why
};
// Blocks until all ranks of the node have attached: as long as the slowest of them takes to load
// its data, so there is no limit. A rank that dies before makes the aggregator send 'E', and the
// end of the aggregator closes the socket. Errors: Unavailable (the other side is gone).
absl::StatusOr<Descriptors> ReceiveDescriptors(int socket);

}  // namespace strata::worker

#endif  // STRATA_WORKER_CONTRACT_RANK_SOCKET_H_
