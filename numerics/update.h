#ifndef STRATA_NUMERICS_UPDATE_H_
#define STRATA_NUMERICS_UPDATE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/job/arena.h"
#include "common/job/optimizer.h"
#include "kernels/kernels.h"
#include "proto/job.pb.h"

namespace strata::numerics {

// The part of one optimizer update of a chunk (or of a whole arena) that is common to all of its
// runs.
struct Update {
  double lr = 0.0;  // the schedule's or the program's, times damping
  float gradient_scale = 1.0f;
  uint64_t number = 1;  // from 1; Adam's t
  bool far = false;     // as in kernels::OptimizerStep
  float sgd_share = 1.0f, rms_share = 0.0f;
};

// Applies `update` run by run, with each run's learning-rate and decay multipliers; runs that are
// averaged become the mean gradient. All weights are updated through this function, so that the
// same gradients give the same bits wherever the optimizer runs. Pointers as in Kernels::optimize;
// they cover all runs.
void ApplyUpdate(const kernels::Kernels& kernels, const OptimizerParams& params,
                 const Update& update, absl::Span<const OptimizerRun> runs,
                 const float* gradient_sum, const float* w_in, float* w_out, float* state0,
                 float* state1);

// One run's part of an update: MakeStep applies the run's multipliers, RunParams takes the mean
// instead of the optimizer if the run is averaged.
inline kernels::OptimizerStep MakeStep(const OptimizerParams& params, const Update& update,
                                       const OptimizerRun& run) {
  return {
      .lr = static_cast<float>(update.lr * run.lr_multiplier),
      .decay = params.weight_decay * run.decay_multiplier,
      .gradient_scale = update.gradient_scale,
      .update = update.number,
      .sgd_share = update.sgd_share,
      .rms_share = update.rms_share,
      .far = update.far,
  };
}
inline OptimizerParams RunParams(const OptimizerParams& params, const OptimizerRun& run) {
  OptimizerParams of_run = params;
  if (run.averaged) of_run.kind = OptimizerKind::kMean;
  return of_run;
}

// How a job's weights are updated, the same for all of its chunks.
struct UpdateRule {
  OptimizerParams optimizer;
  proto::Schedule schedule;
  uint64_t samples_per_epoch = 0;
  uint32_t epochs = 1;
  bool has_multipliers = true;  // the layout has multipliers of learning rate and decay
  bool says_rates = false;      // each update is given its rate, whatever the schedule says
  bool far = false;             // as in kernels::OptimizerStep
  bool marks_absent = false;    // JobRecord's: see numerics/present_update.h

  // Number of vectors of optimizer state, including that of missed updates.
  int state_vectors_max() const {
    return StateVectors(optimizer.kind) + int{marks_absent && CountsUpdates(optimizer.kind)};
  }
};

// Factors of an update's learning rate, besides the rule.
struct StepRate {
  double said = 0;       // if the rule takes given rates
  double damping = 1.0;  // factor of the rate
};

// Return the rule of the weights that all nodes share, on servers or in a ring; and that of each
// node's own weights in local steps: the job's own optimizer. The job's defaults are filled in.
// Rates given by the program are those of its optimizer: `outer` keeps its own.
UpdateRule MakeUpdateRule(const proto::Job& job, uint64_t samples_per_epoch,
                          bool says_rates = false);
UpdateRule MakeLocalUpdateRule(const proto::Job& job, uint64_t samples_per_epoch,
                               bool says_rates = false);

// Returns update `number` (from 1), after which `samples` have been applied in total.
Update UpdateAt(const UpdateRule& rule, uint64_t samples, uint64_t number,
                const StepRate& step = {});

}  // namespace strata::numerics

#endif  // STRATA_NUMERICS_UPDATE_H_
