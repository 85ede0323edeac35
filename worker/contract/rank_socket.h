#ifndef STRATA_WORKER_CONTRACT_RANK_SOCKET_H_
#define STRATA_WORKER_CONTRACT_RANK_SOCKET_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace strata::worker {

// Abstract Unix sockets: their names exist only while a process listens.

// Returns a non-blocking listener. Errors: InvalidArgument (name), AlreadyExists.
absl::StatusOr<UniqueFd> ListenAt(const std::string& name);
// Returns the next connection of a process of this user; others are closed unread. Invalid: none
// waits.
UniqueFd AcceptFrom(const UniqueFd& listener);
// Retries until somebody listens. Errors: InvalidArgument (name), Unavailable (deadline).
absl::StatusOr<UniqueFd> ConnectTo(const std::string& name, absl::Duration deadline);

// Sends the byte that follows Attach, see rank_protocol.proto. `memory` < 0: none ('E').
absl::Status SendDescriptors(int socket, int memory, int doorbell);
struct Descriptors {
  UniqueFd memory, doorbell;  // both invalid: the job ends, a message says why
};
// Blocks until all ranks of the node have attached. There is no limit, because the slowest rank may
// take long to load its data. If a rank dies before that, the aggregator sends 'E'; if the
// aggregator ends, the socket closes. Errors: Unavailable (the peer is gone).
absl::StatusOr<Descriptors> ReceiveDescriptors(int socket);

}  // namespace strata::worker

#endif  // STRATA_WORKER_CONTRACT_RANK_SOCKET_H_
