#ifndef STRATA_WORKER_EXCHANGE_SERVER_RESUME_CLOCK_H_
#define STRATA_WORKER_EXCHANGE_SERVER_RESUME_CLOCK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Returns the clock that a node begins with in a job that goes on from a checkpoint: the least of
// those that its chunks go on from, or where nodes or ranks keep state, the checkpoint's: pushes
// that are in a chunk already are made again, and not applied. `received`: by chunk, the node's
// pushes that the checkpoint has. They may differ where pushes are applied when they come, or by a
// quorum. Errors: FailedPrecondition: they may not; names two chunks, their clocks and servers.
absl::StatusOr<uint64_t> FindResumeClock(const proto::JobRecord& record,
                                         absl::Span<const uint64_t> received);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_SERVER_RESUME_CLOCK_H_
