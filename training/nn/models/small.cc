#include "training/nn/models/families.h"

namespace strata::worker {

std::vector<LayerSpec> Mlp(uint32_t classes) {
  return {{"flatten", Flatten{}},     {"fc1", InnerProduct{256}}, {"relu1", Relu{}},
          {"fc2", InnerProduct{128}}, {"relu2", Relu{}},          {"fc3", InnerProduct{classes}}};
}

// LeCun et al. 1998 with ReLU and max pooling. ReLU is monotone, so it may follow the pooling,
// where it has a quarter of the values to look at, and gives the same function.
std::vector<LayerSpec> LeNet5() {
  return {{"conv1", Convolution{.outputs = 6, .kernel = 5, .padding = 2}},
          {"pool1", MaxPool{}},
          {"relu1", Relu{}},
          {"conv2", Convolution{.outputs = 16, .kernel = 5}},
          {"pool2", MaxPool{}},
          {"relu2", Relu{}},
          {"flatten", Flatten{}},
          {"fc1", InnerProduct{120}},
          {"relu3", Relu{}},
          {"fc2", InnerProduct{84}},
          {"relu4", Relu{}},
          {"fc3", InnerProduct{10}}};
}

// 824,554 parameters for 1 x 28 x 28 images and 10 classes. Convolutions have no bias where batch
// normalisation would take it out again.
std::vector<LayerSpec> Cnn(uint32_t classes) {
  return {{"conv1", Convolution{.outputs = 32, .kernel = 3, .padding = 1, .bias = false}},
          {"bn1", BatchNorm{}},
          {"pool1", MaxPool{}},
          {"relu1", Relu{}},
          {"conv2", Convolution{.outputs = 64, .kernel = 3, .padding = 1, .bias = false}},
          {"bn2", BatchNorm{}},
          {"pool2", MaxPool{}},
          {"relu2", Relu{}},
          {"flatten", Flatten{}},
          {"fc1", InnerProduct{256}},
          {"relu3", Relu{}},
          {"dropout", Dropout{0.25f}},
          {"fc2", InnerProduct{classes}}};
}

}  // namespace strata::worker
