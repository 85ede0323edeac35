// Residual networks (He et al. 2016). Convolutions have no bias where batch normalisation follows.

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "training/nn/models/families.h"

namespace strata::worker {
namespace {

Convolution Conv(uint32_t outputs, uint32_t kernel, uint32_t stride) {
  return {
      .outputs = outputs, .kernel = kernel, .padding = kernel / 2, .stride = stride, .bias = false};
}

// Two 3 x 3 convolutions; the shortcut has no weights (option A).
void AddBasicBlock(const std::string& block, uint32_t outputs, uint32_t stride,
                   std::vector<LayerSpec>* layers) {
  const auto add = [&](const char* name, auto kind) {
    layers->push_back({absl::StrCat(block, ".", name), kind});
  };
  add("fork", Fork{});
  add("conv1", Conv(outputs, 3, stride));
  add("bn1", BatchNorm{});
  add("relu1", Relu{});
  add("conv2", Conv(outputs, 3, 1));
  add("bn2", BatchNorm{});
  add("join", Join{stride});
  add("relu2", Relu{});
}

// 1 x 1, 3 x 3, 1 x 1 convolutions of `width`, `width` and four times as many channels. The stride
// is the 3 x 3 one's ("v1.5"). Where shapes change, the shortcut is a convolution (option B).
void AddBottleneck(const std::string& block, uint32_t width, uint32_t stride, bool projects,
                   std::vector<LayerSpec>* layers) {
  const auto add = [&](const char* name, auto kind) {
    layers->push_back({absl::StrCat(block, ".", name), kind});
  };
  add("fork", Fork{});
  add("conv1", Conv(width, 1, 1));
  add("bn1", BatchNorm{});
  add("relu1", Relu{});
  add("conv2", Conv(width, 3, stride));
  add("bn2", BatchNorm{});
  add("relu2", Relu{});
  add("conv3", Conv(4 * width, 1, 1));
  add("bn3", BatchNorm{});
  if (projects) {
    add("branch", Branch{});
    add("downsample.0", Conv(4 * width, 1, stride));
    add("downsample.1", BatchNorm{});
  }
  add("join", Join{});
  add("relu3", Relu{});
}

void AddHead(uint32_t classes, std::vector<LayerSpec>* layers) {
  layers->push_back({"pool", GlobalAveragePool{}});
  layers->push_back({"flatten", Flatten{}});
  layers->push_back({"fc", InnerProduct{classes}});
}

}  // namespace

// Three stages of n basic blocks with 16, 32 and 64 channels: resnet8 has n = 1, resnet20 n = 3.
std::vector<LayerSpec> CifarResNet(uint32_t n, uint32_t classes) {
  std::vector<LayerSpec> layers = {
      {"conv1", Conv(16, 3, 1)}, {"bn1", BatchNorm{}}, {"relu1", Relu{}}};
  uint32_t block = 0;
  for (uint32_t stage = 0; stage < 3; ++stage) {
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t stride = stage > 0 && i == 0 ? 2 : 1;
      AddBasicBlock(absl::StrCat("block", ++block), 16u << stage, stride, &layers);
    }
  }
  AddHead(classes, &layers);
  return layers;
}

// Names of tensors are torchvision's, so that weights can be taken over.
std::vector<LayerSpec> ResNet50(uint32_t classes) {
  std::vector<LayerSpec> layers = {
      {"conv1", Conv(64, 7, 2)}, {"bn1", BatchNorm{}}, {"relu", Relu{}}, {"maxpool", kHalvingPool}};
  constexpr std::array<uint32_t, 4> kBlocks = {3, 4, 6, 3};
  for (uint32_t stage = 0; stage < kBlocks.size(); ++stage) {
    for (uint32_t i = 0; i < kBlocks[stage]; ++i) {
      const uint32_t stride = stage > 0 && i == 0 ? 2 : 1;
      AddBottleneck(absl::StrCat("layer", stage + 1, ".", i), 64u << stage, stride, i == 0,
                    &layers);
    }
  }
  AddHead(classes, &layers);
  return layers;
}

}  // namespace strata::worker
