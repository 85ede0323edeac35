#ifndef STRATA_OPTIMIZER_UPDATE_RULE_H_
#define STRATA_OPTIMIZER_UPDATE_RULE_H_

#include <cstdint>

#include "common/job/optimizer.h"
#include "optimizer/update.h"
#include "proto/job.pb.h"

namespace strata::kernels {

// How a job's weights are updated, the same for all of its chunks.
struct UpdateRule {
  OptimizerParams optimizer;
  proto::Schedule schedule;
  uint64_t samples_per_epoch = 0;
  uint32_t epochs = 1;
  bool has_multipliers = true;  // the layout's, of learning rate and decay
  bool far = false;             // as in OptimizerStep
};

// The rule of the weights that all nodes share, on servers or in a ring; and of those that each
// node has in local steps: the job's own optimizer. The job's defaults are filled in.
UpdateRule MakeUpdateRule(const proto::Job& job, uint64_t samples_per_epoch);
UpdateRule MakeLocalUpdateRule(const proto::Job& job, uint64_t samples_per_epoch);

// Update `number` (from 1), with which `samples` have been applied in all.
Update UpdateAt(const UpdateRule& rule, uint64_t samples, uint64_t number, double damping = 1.0);

}  // namespace strata::kernels

#endif  // STRATA_OPTIMIZER_UPDATE_RULE_H_
