#include "training/nn/device/fusion.h"

#include <variant>

namespace strata::worker::on_device {

Fusion FusionAt(const ModelSpec& model, size_t i, const Shape& output, const Block* block) {
  const auto& kind = model.layers[i].kind;
  Fusion fusion;
  const bool normalises = std::holds_alternative<BatchNorm>(kind);
  if (!normalises && !std::holds_alternative<Convolution>(kind) &&
      !std::holds_alternative<InnerProduct>(kind)) {
    return fusion;
  }
  const auto follows = [&]<typename Kind>(const Kind*) {
    const size_t next = i + fusion.layers;
    return next < model.layers.size() && std::holds_alternative<Kind>(model.layers[next].kind);
  };
  if (normalises && block != nullptr && follows(static_cast<const Join*>(nullptr))) {
    fusion.join = block->ends.empty() ? block->forked.shape == output : block->ends.size() == 1;
    if (!fusion.join) return fusion;
    ++fusion.layers;
  }
  fusion.relu = follows(static_cast<const Relu*>(nullptr));
  if (fusion.relu) ++fusion.layers;
  return fusion;
}

}  // namespace strata::worker::on_device
