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
  bool says_rates = false;      // each update is told its rate, whatever the schedule is
  bool far = false;             // as in OptimizerStep
};

// What an update's learning rate is made of, besides the rule.
struct StepRate {
  double said = 0;       // where the rule says rates
  double damping = 1.0;  // factor of the rate
};

// The rule of the weights that all nodes share, on servers or in a ring; and of those that each
// node has in local steps: the job's own optimizer. The job's defaults are filled in. Where the
// program says rates they are those of its optimizer: `outer` keeps its own.
UpdateRule MakeUpdateRule(const proto::Job& job, uint64_t samples_per_epoch,
                          bool says_rates = false);
UpdateRule MakeLocalUpdateRule(const proto::Job& job, uint64_t samples_per_epoch,
                               bool says_rates = false);

// Update `number` (from 1), with which `samples` have been applied in all.
Update UpdateAt(const UpdateRule& rule, uint64_t samples, uint64_t number,
                const StepRate& step = {});

}  // namespace strata::kernels

#endif  // STRATA_OPTIMIZER_UPDATE_RULE_H_
