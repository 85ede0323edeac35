#include "compare/virtual_time/problem.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace strata::compare {
namespace {

using training::LayerShape;

// Multiplications of a layer's forward pass, per sample.
double CostOf(const training::LayerSpec& layer, const LayerShape& shape) {
  if (const auto* convolution = std::get_if<training::Convolution>(&layer.kind)) {
    return static_cast<double>(shape.output.Elements()) * shape.input.channels *
           convolution->kernel * convolution->kernel;
  }
  if (std::holds_alternative<training::InnerProduct>(layer.kind)) {
    return static_cast<double>(shape.output.Elements()) * shape.input.Elements();
  }
  if (std::holds_alternative<training::Flatten>(layer.kind) ||
      std::holds_alternative<training::Fork>(layer.kind) ||
      std::holds_alternative<training::Branch>(layer.kind)) {
    return 0;
  }
  return 2.0 * static_cast<double>(shape.input.Elements());
}

}  // namespace

absl::StatusOr<std::vector<StepStage>> MakeStages(const training::ModelSpec& model) {
  const absl::StatusOr<std::vector<LayerShape>> shapes = training::FollowShapes(model);
  if (!shapes.ok()) return shapes.status();
  std::vector<StepStage> stages;
  double before = 0, forward = 0, backward = 0;
  int weight = 0;
  for (size_t i = 0; i < shapes->size(); ++i) {
    const int weights = static_cast<int>((*shapes)[i].weights.size());
    const double cost = CostOf(model.layers[i], (*shapes)[i]);
    if (weights > 0) stages.push_back({.first_weight = weight, .weights = weights});
    weight += weights;
    forward += cost;
    if (stages.empty()) {
      before += cost;
      continue;
    }
    const bool is_first = stages.size() == 1 && weights > 0;
    stages.back().forward += cost;
    stages.back().backward += is_first ? cost : 2 * cost;
    backward += is_first ? cost : 2 * cost;
  }
  if (stages.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model ", model.name, " has no weights"));
  }
  stages.front().forward += before;
  for (StepStage& stage : stages) {
    stage.forward /= forward;
    stage.backward /= backward;
  }
  return stages;
}

}  // namespace strata::compare
