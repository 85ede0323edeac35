#include "cli/checkpoint/optimizer_names.h"

namespace strata::cli {

OptimizerNames NamesOf(const proto::Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case proto::Optimizer::kSgd:
      return {.optimizer = "sgd"};
    case proto::Optimizer::kMomentumSgd:
      return {.optimizer = "momentum_sgd", .vectors = {{"momentum_buffer"}}};
    case proto::Optimizer::kNesterov:
      return {.optimizer = "nesterov", .vectors = {{"momentum_buffer"}}};
    case proto::Optimizer::kAdam:
      return {.optimizer = "adam", .vectors = {{"exp_avg"}, {"exp_avg_sq"}}, .has_step = true};
    case proto::Optimizer::kAdamw:
      return {.optimizer = "adamw", .vectors = {{"exp_avg"}, {"exp_avg_sq"}}, .has_step = true};
    case proto::Optimizer::kLars:
      return {.optimizer = "lars", .vectors = {{"velocity"}}};
    case proto::Optimizer::kRmspropWarmup:
      return {.optimizer = "rmsprop_warmup",
              .vectors = {{"square_avg"}, {.name = "momentum_buffer", .negated = true}},
              .has_step = true};
    case proto::Optimizer::kMean:
      return {.optimizer = "mean"};
    case proto::Optimizer::kFromProgram:
    case proto::Optimizer::KIND_NOT_SET:
      break;
  }
  return {};
}

}  // namespace strata::cli
