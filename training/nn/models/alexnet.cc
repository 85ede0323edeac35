#include "training/nn/models/families.h"

namespace strata::worker {

// Krizhevsky 2014 ("One weird trick"), as in torchvision, whose names its tensors have: one tower
// without groups, no local response normalisation, dropout before both hidden layers. Layers of
// 224 x 224 images; others give the first hidden layer more inputs or fewer.
std::vector<LayerSpec> AlexNet(uint32_t classes) {
  constexpr MaxPool kPool{.kernel = 3, .stride = 2};
  return {{"features.0", Convolution{.outputs = 64, .kernel = 11, .padding = 2, .stride = 4}},
          {"features.1", Relu{}},
          {"features.2", kPool},
          {"features.3", Convolution{.outputs = 192, .kernel = 5, .padding = 2}},
          {"features.4", Relu{}},
          {"features.5", kPool},
          {"features.6", Convolution{.outputs = 384, .kernel = 3, .padding = 1}},
          {"features.7", Relu{}},
          {"features.8", Convolution{.outputs = 256, .kernel = 3, .padding = 1}},
          {"features.9", Relu{}},
          {"features.10", Convolution{.outputs = 256, .kernel = 3, .padding = 1}},
          {"features.11", Relu{}},
          {"features.12", kPool},
          {"flatten", Flatten{}},
          {"classifier.0", Dropout{0.5f}},
          {"classifier.1", InnerProduct{4096}},
          {"classifier.2", Relu{}},
          {"classifier.3", Dropout{0.5f}},
          {"classifier.4", InnerProduct{4096}},
          {"classifier.5", Relu{}},
          {"classifier.6", InnerProduct{classes}}};
}

}  // namespace strata::worker
