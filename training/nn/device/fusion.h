#ifndef STRATA_TRAINING_NN_DEVICE_FUSION_H_
#define STRATA_TRAINING_NN_DEVICE_FUSION_H_

#include <cstddef>

#include "training/nn/device/layer.h"
#include "training/nn/network/model.h"

namespace strata::worker::on_device {

// Layers that are computed as one, in one pass over the memory.
struct Fusion {
  bool join = false;  // of two values of one shape
  bool relu = false;  // after that
  size_t layers = 1;  // all together
};

// What layer `i`, whose output has this shape, takes on of those after it; `block` is what it is
// within, or null.
Fusion FusionAt(const ModelSpec& model, size_t i, const Shape& output, const Block* block);

}  // namespace strata::worker::on_device

#endif  // STRATA_TRAINING_NN_DEVICE_FUSION_H_
