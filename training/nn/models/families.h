#ifndef STRATA_TRAINING_NN_MODELS_FAMILIES_H_
#define STRATA_TRAINING_NN_MODELS_FAMILIES_H_

// Internal to training/nn/models: each model's layers, for images and classes that zoo.cc has found
// to fit.

#include <cstdint>
#include <vector>

#include "training/nn/network/model.h"

namespace strata::worker {

std::vector<LayerSpec> Mlp(uint32_t classes);
std::vector<LayerSpec> LeNet5();
std::vector<LayerSpec> Cnn(uint32_t classes);
std::vector<LayerSpec> AlexNet(uint32_t classes);
std::vector<LayerSpec> Vgg16(uint32_t classes);
std::vector<LayerSpec> GoogLeNet(uint32_t classes);
// He et al. 2016, section 4.2: 6 n + 2 layers with weights.
std::vector<LayerSpec> CifarResNet(uint32_t n, uint32_t classes);
std::vector<LayerSpec> ResNet50(uint32_t classes);

// 3 x 3 windows that overlap, in place of "ceil mode": 224 rows become 112, 56, 28, 14, 7.
inline constexpr MaxPool kHalvingPool{.kernel = 3, .stride = 2, .padding = 1};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_MODELS_FAMILIES_H_
