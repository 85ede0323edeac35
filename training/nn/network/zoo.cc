#include "training/nn/network/zoo.h"

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/zoo.h"

namespace strata::training {
namespace {

// 3 x 3 windows that overlap, in place of "ceil mode": 224 rows become 112, 56, 28, 14, 7.
constexpr MaxPool kHalvingPool{.kernel = 3, .stride = 2, .padding = 1};

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

// Residual networks (He et al. 2016). Convolutions have no bias where batch normalisation follows.

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

// Returns empty if there is none.
std::vector<LayerSpec> LayersOf(const std::string& name, uint32_t classes) {
  if (name == "mlp") return Mlp(classes);
  if (name == "lenet5") return LeNet5();
  if (name == "cnn") return Cnn(classes);
  if (name == "resnet8") return CifarResNet(1, classes);
  if (name == "resnet20") return CifarResNet(3, classes);
  if (name == "alexnet") return AlexNet(classes);
  if (name == "vgg16") return Vgg16(classes);
  if (name == "googlenet") return GoogLeNet(classes);
  if (name == "resnet50") return ResNet50(classes);
  return {};
}

}  // namespace

absl::StatusOr<ModelSpec> MakeModel(const std::string& name, const Shape& input, uint32_t classes,
                                    const std::string& data) {
  const absl::Status fits =
      CheckZooInput(name, data, {input.channels, input.height, input.width, classes});
  if (!fits.ok()) return fits;
  ModelSpec model{name, input, LayersOf(name, classes)};
  const auto shapes = FollowShapes(model);
  if (!shapes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", name, " does not fit ", data, " (images of ", input.channels, " x ", input.height,
        " x ", input.width, ", ", classes, " classes): ", std::string(shapes.status().message())));
  }
  return model;
}

}  // namespace strata::training
