#ifndef STRATA_WORKER_AGGREGATOR_CAN_REJOIN_H_
#define STRATA_WORKER_AGGREGATOR_CAN_REJOIN_H_

#include "absl/status/status.h"
#include "proto/processes.pb.h"
#include "worker/contract/rank_protocol.pb.h"

namespace strata::worker {

// Whether ranks that say this can make the steps of a node that died; OK where the node's process
// takes no other one's place. Errors: FailedPrecondition naming the node and what it lacks.
absl::Status CheckCanRejoin(const proto::Launch& launch, const proto::Offer& offer);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CAN_REJOIN_H_
