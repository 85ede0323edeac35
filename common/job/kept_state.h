#ifndef STRATA_COMMON_JOB_KEPT_STATE_H_
#define STRATA_COMMON_JOB_KEPT_STATE_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace strata {

// What checkpoints of a job hold besides the weights and the optimizer's state. All take jobs with
// their defaults filled in.

// Whether nodes keep state of their own from one clock to the next, which differs from node to
// node: what pushes have left out, weights of local steps, an optimizer that nodes apply, gradients
// that double buffering has under way.
bool NodesKeepState(const proto::Job& job);
// Returns the clocks of the exchange from one checkpoint to the next; 0: the job writes none.
uint64_t ClocksPerCheckpoint(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_KEPT_STATE_H_
