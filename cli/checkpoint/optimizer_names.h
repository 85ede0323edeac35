#ifndef STRATA_CLI_CHECKPOINT_OPTIMIZER_NAMES_H_
#define STRATA_CLI_CHECKPOINT_OPTIMIZER_NAMES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace strata::cli {

// What one vector of an optimizer's state is called.
struct StateName {
  std::string name;
  bool negated = false;  // what is called so is the vector times -1
};

// The state of an optimizer by PyTorch's names.
struct OptimizerNames {
  std::string optimizer;           // as in proto/job.proto: "adamw"
  std::vector<StateName> vectors;  // in the order in which images have them
  bool has_step = false;           // PyTorch's optimizer counts its updates
};

// The formulas of proto/job.proto beside those of torch.optim:
// - momentum_sgd, nesterov: v is SGD's momentum_buffer, whose dampening is 0.
// - adam, adamw: m and v are exp_avg and exp_avg_sq, both before the correction of their bias.
// - rmsprop_warmup: m is RMSprop's square_avg. d, which is added to the weights, is its
//   momentum_buffer, which is subtracted, times -1. What d has of momentum SGD stays in it.
// - lars: torch.optim has none. v holds the learning rates and the trust of the steps that made it,
//   which no formula takes out: it is called velocity.
OptimizerNames NamesOf(const proto::Optimizer& optimizer);

}  // namespace strata::cli

#endif  // STRATA_CLI_CHECKPOINT_OPTIMIZER_NAMES_H_
