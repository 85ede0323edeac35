#include "common/job/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/random.h"
#include "training/nn/bound_network.h"
#include "training/nn/network/zoo.h"

namespace strata::training {

namespace {

constexpr Shape kMnist{1, 28, 28}, kCifar{3, 32, 32}, kImageNet{3, 224, 224};

uint64_t Parameters(const std::string& name, const Shape& input, uint32_t classes) {
  uint64_t sum = 0;
  for (const TensorSpec& tensor : ListWeights(MakeModel(name, input, classes).value())) {
    sum += tensor.Elements();
  }
  return sum;
}

// The output shapes of a model's layers, by name.
std::map<std::string, Shape> Outputs(const std::string& name, const Shape& input) {
  const ModelSpec model = MakeModel(name, input, 1000).value();
  const auto shapes = FollowShapes(model).value();
  std::map<std::string, Shape> outputs;
  for (size_t i = 0; i < shapes.size(); ++i) outputs[model.layers[i].name] = shapes[i].output;
  EXPECT_EQ(outputs.size(), shapes.size()) << "two layers of one name";
  return outputs;
}

TEST(Zoo, SmallModelsHaveTheParametersThatTheirPapersHave) {
  EXPECT_EQ(Parameters("lenet5", kMnist, 10), 61706u);
  EXPECT_EQ(Parameters("mlp", kMnist, 10), 784u * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(Parameters("cnn", kMnist, 10), 824554u);
  // 3 x 3 kernels: 1 to 16 channels, 2 of 16, 16 to 32, 32, 32 to 64, 64; scales and shifts; fc.
  EXPECT_EQ(Parameters("resnet8", kMnist, 10), 9u * (16 + 2 * 256 + 512 + 1024 + 2048 + 4096) +
                                                   2 * (3 * 16 + 2 * 32 + 2 * 64) + 64 * 10 + 10);
}

// "0.27M" in table 6 of He et al. 2016.
TEST(Zoo, ResNet20HasItsPapersParameters) {
  EXPECT_EQ(Parameters("resnet20", kCifar, 10), 269722u);
}

// As torchvision has them.
TEST(Zoo, ModelsForImageNetHaveTheirPublishedParameters) {
  EXPECT_EQ(Parameters("alexnet", kImageNet, 1000), 61100840u);
  EXPECT_EQ(Parameters("vgg16", kImageNet, 1000), 138357544u);
  EXPECT_EQ(Parameters("resnet50", kImageNet, 1000), 25557032u);
}

// 6,998,552 with biases and without auxiliary classifiers, as Caffe's bvlc_googlenet has them;
// batch normalisation has two parameters per channel where that has one.
TEST(Zoo, GoogLeNetHasItsPublishedParametersButForBatchNormalisation) {
  uint64_t channels = 0;
  const ModelSpec model = MakeModel("googlenet", kImageNet, 1000).value();
  for (const LayerSpec& layer : model.layers) {
    const auto* convolution = std::get_if<Convolution>(&layer.kind);
    if (convolution != nullptr) channels += convolution->outputs;
  }
  EXPECT_EQ(channels, 7280u);
  EXPECT_EQ(Parameters("googlenet", kImageNet, 1000), 6998552u + channels);
}

TEST(Zoo, ResNet50HasTheStagesOfItsPaper) {
  auto outputs = Outputs("resnet50", kImageNet);
  EXPECT_EQ(outputs["conv1"], (Shape{64, 112, 112}));
  EXPECT_EQ(outputs["maxpool"], (Shape{64, 56, 56}));
  EXPECT_EQ(outputs["layer1.2.relu3"], (Shape{256, 56, 56}));
  // The stride is the 3 x 3 convolution's.
  EXPECT_EQ(outputs["layer2.0.conv1"], (Shape{128, 56, 56}));
  EXPECT_EQ(outputs["layer2.0.conv2"], (Shape{128, 28, 28}));
  EXPECT_EQ(outputs["layer2.3.relu3"], (Shape{512, 28, 28}));
  EXPECT_EQ(outputs["layer3.5.relu3"], (Shape{1024, 14, 14}));
  EXPECT_EQ(outputs["layer4.2.relu3"], (Shape{2048, 7, 7}));
  EXPECT_EQ(outputs["pool"], (Shape{2048, 1, 1}));
}

TEST(Zoo, GoogLeNetHasTheRowsOfItsPapersTable) {
  auto outputs = Outputs("googlenet", kImageNet);
  EXPECT_EQ(outputs["maxpool1"], (Shape{64, 56, 56}));
  EXPECT_EQ(outputs["maxpool2"], (Shape{192, 28, 28}));
  EXPECT_EQ(outputs["inception3a.concat"], (Shape{256, 28, 28}));
  EXPECT_EQ(outputs["inception3b.concat"], (Shape{480, 28, 28}));
  EXPECT_EQ(outputs["inception4a.concat"], (Shape{512, 14, 14}));
  EXPECT_EQ(outputs["inception4d.concat"], (Shape{528, 14, 14}));
  EXPECT_EQ(outputs["inception4e.concat"], (Shape{832, 14, 14}));
  EXPECT_EQ(outputs["inception5b.concat"], (Shape{1024, 7, 7}));
}

TEST(Zoo, AlexNetAndVggEndTheirConvolutionsAsTheirPapersDo) {
  EXPECT_EQ(Outputs("alexnet", kImageNet)["features.0"], (Shape{64, 55, 55}));
  EXPECT_EQ(Outputs("alexnet", kImageNet)["features.12"], (Shape{256, 6, 6}));
  EXPECT_EQ(Outputs("vgg16", kImageNet)["features.30"], (Shape{512, 7, 7}));
  EXPECT_EQ(Outputs("resnet20", kCifar)["block9.relu2"], (Shape{64, 8, 8}));
}

// So that weights of torchvision's models can be taken over, and the other way round.
TEST(Zoo, TensorsHaveTorchvisionsNames) {
  const auto names = [](const std::string& name) {
    std::set<std::string> all;
    const ModelSpec model = MakeModel(name, kImageNet, 1000).value();
    for (const TensorSpec& tensor : ListWeights(model)) all.insert(tensor.name);
    for (const TensorSpec& tensor : ListBuffers(model)) all.insert(tensor.name);
    return all;
  };
  EXPECT_THAT(names("alexnet"),
              ::testing::ElementsAre("classifier.1.bias", "classifier.1.weight",
                                     "classifier.4.bias", "classifier.4.weight",
                                     "classifier.6.bias", "classifier.6.weight", "features.0.bias",
                                     "features.0.weight", "features.10.bias", "features.10.weight",
                                     "features.3.bias", "features.3.weight", "features.6.bias",
                                     "features.6.weight", "features.8.bias", "features.8.weight"));
  EXPECT_THAT(names("vgg16"), ::testing::IsSupersetOf({"features.28.weight", "classifier.0.weight",
                                                       "classifier.3.bias", "classifier.6.bias"}));
  EXPECT_THAT(names("resnet50"),
              ::testing::IsSupersetOf({"conv1.weight", "bn1.running_var", "layer1.0.conv3.weight",
                                       "layer4.0.downsample.0.weight",
                                       "layer4.0.downsample.1.running_mean", "fc.bias"}));
  EXPECT_EQ(names("resnet50").size(), 161u + 2 * 53);
  EXPECT_THAT(names("googlenet"),
              ::testing::IsSupersetOf({"conv1.conv.weight", "inception3a.branch1.bn.weight",
                                       "inception3a.branch2.1.conv.weight",
                                       "inception5b.branch4.1.bn.running_mean", "fc.weight"}));
}

TEST(Zoo, ModelsTakeTheShapeOfTheData) {
  EXPECT_TRUE(MakeModel("mlp", {3, 5, 7}, 2).ok());
  EXPECT_TRUE(MakeModel("cnn", {3, 32, 32}, 100).ok());
  EXPECT_TRUE(MakeModel("resnet8", {1, 7, 8}, 2).ok());
  EXPECT_TRUE(MakeModel("resnet20", kMnist, 10).ok());
}

TEST(Zoo, EveryNameIsAModelThatTakesTheSmallestImagesThatItSays) {
  for (const std::string& name : ZooNames()) {
    uint32_t size = 1;
    while (!CheckZooInput(name, "d", {1, size, size, 10}).ok()) ++size;
    EXPECT_LE(size, 63u) << name;
    EXPECT_EQ(MakeModel(name, {1, size, size}, 10).status(), absl::OkStatus()) << name;
  }
}

TEST(Zoo, ModelsHaveBatchNormalisationWhereTheirNamesAreSaidToHaveIt) {
  for (const std::string& name : ZooNames()) {
    const bool is_for_mnist = name == "lenet5";
    const ModelSpec model = MakeModel(name, is_for_mnist ? kMnist : kImageNet, 10).value();
    EXPECT_EQ(HasBatchNorm(name), !ListBuffers(model).empty()) << name;
  }
  EXPECT_FALSE(HasBatchNorm("none"));
}

TEST(Zoo, ModelThatDoesNotFitTheDataSaysWhy) {
  EXPECT_EQ(MakeModel("lenet5", {1, 8, 8}, 10).status().message(),
            "model lenet5 does not fit the data (images of 1 x 8 x 8, 10 classes): it needs 1 x 28 "
            "x 28 and 10 classes");
  EXPECT_EQ(MakeModel("vgg16", {1, 28, 28}, 10, "data.idx /mnist").status().message(),
            "model vgg16 does not fit data.idx /mnist (images of 1 x 28 x 28, 10 classes): it "
            "needs at least 32 x 32");
  // An error that only the layers find.
  const auto huge = MakeModel("mlp", {4096, 4096, 4096}, 10).status();
  EXPECT_EQ(huge.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(huge.message(),
            "model mlp does not fit the data (images of 4096 x 4096 x 4096, 10 classes): the "
            "images are too large");
}

TEST(Zoo, UnknownNameListsTheZoo) {
  const auto status = MakeModel("resnet", kMnist, 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

// The first step of each model for ImageNet, at its full size and a batch of one or two images.

struct Case {
  std::string model;
  uint32_t batch;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.model; }

class FirstStep : public ::testing::TestWithParam<Case> {};

TEST_P(FirstStep, LearnsFromAllImagesWithAllWeights) {
  const auto& [name, batch] = GetParam();
  const Shape input{3, 224, 224};
  const ModelSpec model = MakeModel(name, input, 1000).value();
  BoundNetwork bound(model, {.batch = batch});
  std::vector<float> images(batch * input.Elements());
  for (size_t i = 0; i < images.size(); ++i) images[i] = 2 * RandomUniform(7, i) - 1;
  const std::vector<uint16_t> labels =
      batch == 1 ? std::vector<uint16_t>{999} : std::vector<uint16_t>{3, 999};
  const double loss = bound.Forward(images, labels) / batch;
  // A fair guess among 1,000 classes costs log(1000) = 6.9; a first one may be confident and wrong.
  EXPECT_GT(loss, 3);
  EXPECT_LT(loss, 50);
  ASSERT_EQ(bound.Backward(), absl::OkStatus());
  const std::vector<TensorSpec> tensors = ListWeights(model);
  double squares = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    double of_tensor = 0;
    for (const float value : bound.gradients[t]) of_tensor += double{value} * value;
    ASSERT_TRUE(std::isfinite(of_tensor)) << tensors[t].name;
    EXPECT_GT(of_tensor, 0) << tensors[t].name;
    squares += of_tensor;
  }
  // A step against the gradient, short enough to be downhill, makes the loss of these images less.
  const double rate = 0.05 * loss / squares;
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (size_t i = 0; i < bound.weights[t].size(); ++i) {
      bound.weights[t][i] -= static_cast<float>(rate) * bound.gradients[t][i];
    }
  }
  EXPECT_LT(bound.Forward(images, labels) / batch, loss);
}

INSTANTIATE_TEST_SUITE_P(ImageNet, FirstStep,
                         ::testing::Values(Case{"alexnet", 2}, Case{"vgg16", 1},
                                           Case{"googlenet", 2}, Case{"resnet50", 2}),
                         [](const auto& info) { return info.param.model; });

}  // namespace

}  // namespace strata::training
