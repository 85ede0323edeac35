#include <array>

#include "absl/strings/str_cat.h"
#include "training/nn/models/families.h"

namespace strata::worker {

// Simonyan & Zisserman 2015, configuration D, without batch normalisation. Names of tensors are
// torchvision's. Images other than 224 x 224 give the first hidden layer other inputs.
std::vector<LayerSpec> Vgg16(uint32_t classes) {
  struct Stage {
    int convolutions;
    uint32_t outputs;
  };
  constexpr std::array<Stage, 5> kStages = {{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}};
  std::vector<LayerSpec> layers;
  const auto add = [&](const char* part, int index, auto kind) {
    layers.push_back({absl::StrCat(part, ".", index), kind});
  };
  int index = 0;
  for (const Stage& stage : kStages) {
    for (int i = 0; i < stage.convolutions; ++i) {
      add("features", index++, Convolution{.outputs = stage.outputs, .kernel = 3, .padding = 1});
      add("features", index++, Relu{});
    }
    add("features", index++, MaxPool{});
  }
  layers.push_back({"flatten", Flatten{}});
  add("classifier", 0, InnerProduct{4096});
  add("classifier", 1, Relu{});
  add("classifier", 2, Dropout{0.5f});
  add("classifier", 3, InnerProduct{4096});
  add("classifier", 4, Relu{});
  add("classifier", 5, Dropout{0.5f});
  add("classifier", 6, InnerProduct{classes});
  return layers;
}

}  // namespace strata::worker
