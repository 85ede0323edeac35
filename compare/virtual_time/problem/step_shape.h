#ifndef STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_STEP_SHAPE_H_
#define STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_STEP_SHAPE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "training/nn/network/model.h"

namespace strata::compare {

// Part of a step: a layer with weights, and those without that follow it.
struct StepStage {
  int first_weight = 0, weights = 0;  // of ListWeights
  double forward = 0, backward = 0;   // share of the forward pass's time, of the backward pass's
};

// A model's stages in the order of forward. Shares are those of multiplications and additions:
// twice as many backward as forward, but in the first stage, which owes nobody a gradient. Layers
// without weights cost as much as two multiplications per value that goes in. Errors: of
// FollowShapes; InvalidArgument (no weights).
absl::StatusOr<std::vector<StepStage>> MakeStages(const worker::ModelSpec& model);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_STEP_SHAPE_H_
