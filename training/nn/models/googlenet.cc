#include <array>
#include <string>

#include "training/nn/models/families.h"

namespace strata::worker {
namespace {

// One row of table 1 of the paper: channels of the 1 x 1 branch, of the 3 x 3 one and what comes
// before it, of the 5 x 5 one and what comes before it, and after the pooling.
struct Inception {
  const char* name;
  uint32_t one, before_three, three, before_five, five, pooled;
  bool pool_after;
};

constexpr std::array<Inception, 9> kInceptions = {
    {{"inception3a", 64, 96, 128, 16, 32, 32, false},
     {"inception3b", 128, 128, 192, 32, 96, 64, true},
     {"inception4a", 192, 96, 208, 16, 48, 64, false},
     {"inception4b", 160, 112, 224, 24, 64, 64, false},
     {"inception4c", 128, 128, 256, 24, 64, 64, false},
     {"inception4d", 112, 144, 288, 32, 64, 64, false},
     {"inception4e", 256, 160, 320, 32, 128, 128, true},
     {"inception5a", 256, 160, 320, 32, 128, 128, false},
     {"inception5b", 384, 192, 384, 48, 128, 128, false}}};

void AddConvolution(const std::string& name, uint32_t outputs, uint32_t kernel, uint32_t stride,
                    std::vector<LayerSpec>* layers) {
  layers->push_back({name + ".conv", Convolution{.outputs = outputs,
                                                 .kernel = kernel,
                                                 .padding = kernel / 2,
                                                 .stride = stride,
                                                 .bias = false}});
  layers->push_back({name + ".bn", BatchNorm{}});
  layers->push_back({name + ".relu", Relu{}});
}

void AddInception(const Inception& of, std::vector<LayerSpec>* layers) {
  const std::string name = of.name;
  layers->push_back({name + ".fork", Fork{}});
  AddConvolution(name + ".branch1", of.one, 1, 1, layers);
  layers->push_back({name + ".to_branch2", Branch{}});
  AddConvolution(name + ".branch2.0", of.before_three, 1, 1, layers);
  AddConvolution(name + ".branch2.1", of.three, 3, 1, layers);
  layers->push_back({name + ".to_branch3", Branch{}});
  AddConvolution(name + ".branch3.0", of.before_five, 1, 1, layers);
  AddConvolution(name + ".branch3.1", of.five, 5, 1, layers);
  layers->push_back({name + ".to_branch4", Branch{}});
  layers->push_back({name + ".branch4.0", MaxPool{.kernel = 3, .stride = 1, .padding = 1}});
  AddConvolution(name + ".branch4.1", of.pooled, 1, 1, layers);
  layers->push_back({name + ".concat", Concat{}});
  if (of.pool_after) layers->push_back({name + ".pool", kHalvingPool});
}

}  // namespace

// Szegedy et al. 2015 with batch normalisation (Ioffe & Szegedy 2015) after each convolution in
// place of biases and local response normalisation, and without the two auxiliary classifiers.
// Names of tensors are torchvision's, whose branch 3 has 3 x 3 convolutions, unlike the paper.
std::vector<LayerSpec> GoogLeNet(uint32_t classes) {
  std::vector<LayerSpec> layers;
  AddConvolution("conv1", 64, 7, 2, &layers);
  layers.push_back({"maxpool1", kHalvingPool});
  AddConvolution("conv2", 64, 1, 1, &layers);
  AddConvolution("conv3", 192, 3, 1, &layers);
  layers.push_back({"maxpool2", kHalvingPool});
  for (const Inception& inception : kInceptions) AddInception(inception, &layers);
  layers.push_back({"avgpool", GlobalAveragePool{}});
  layers.push_back({"flatten", Flatten{}});
  layers.push_back({"dropout", Dropout{0.4f}});
  layers.push_back({"fc", InnerProduct{classes}});
  return layers;
}

}  // namespace strata::worker
