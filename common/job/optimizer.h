#ifndef STRATA_COMMON_JOB_OPTIMIZER_H_
#define STRATA_COMMON_JOB_OPTIMIZER_H_

#include <cstdint>

namespace strata {

enum class OptimizerKind : uint8_t {
  kSgd,
  kMomentumSgd,
  kNesterov,
  kAdam,
  kAdamW,
  kRmspropWarmup,
  kAdagrad,
  kFtrl,
  kMean,  // w = g: not trained, or only averaged here
};

// Constants of one optimizer, formulas in proto/job.proto; those that a kind does not use are
// ignored.
struct OptimizerParams {
  OptimizerKind kind = OptimizerKind::kMomentumSgd;
  float momentum = 0.9f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0.0f;
  // kRmspropWarmup, whose decay is beta2.
  float rms_lr = 3e-4f, center_epochs = 10.0f, width_epochs = 5.0f;
  float initial_accumulator = 0.0f;         // kAdagrad
  float l1 = 0.0f, l2 = 0.0f, beta = 1.0f;  // kFtrl
};

// fp32 state vectors per element: 0 (SGD, mean), 1 (momentum, Nesterov: v; Adagrad: n), 2 (Adam,
// AdamW: m, v; RMSprop warm-up: m, d; FTRL: z, n).
constexpr int StateVectors(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kMean:
      return 0;
    case OptimizerKind::kMomentumSgd:
    case OptimizerKind::kNesterov:
    case OptimizerKind::kAdagrad:
      return 1;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
    case OptimizerKind::kRmspropWarmup:
    case OptimizerKind::kFtrl:
      return 2;
  }
  return 0;
}

// Returns whether an update depends on its number, as Adam's bias corrections do.
constexpr bool CountsUpdates(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
}

// How a gradient is corrected that was computed with older weights than it is applied to; formula
// in proto/job.proto.
struct DelayCompensation {
  float lambda = 0.04f;
  bool adaptive = false;  // keeps a mean square of the gradients per element
  float decay = 0.95f;    // decay of that mean
};

}  // namespace strata

#endif  // STRATA_COMMON_JOB_OPTIMIZER_H_
