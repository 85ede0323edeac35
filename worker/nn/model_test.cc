#include "worker/nn/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace strata::worker {
namespace {

uint64_t Parameters(const std::string& name) {
  uint64_t sum = 0;
  for (const TensorSpec& tensor : WeightsOf(MakeModel(name, {1, 28, 28}, 10).value())) {
    sum += tensor.Elements();
  }
  return sum;
}

TEST(Model, ZooHasTheParametersThatItsPapersHave) {
  EXPECT_EQ(Parameters("lenet5"), 61706u);
  EXPECT_EQ(Parameters("mlp"), 784u * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(Parameters("cnn"), 824554u);
  // 3 x 3 kernels: 1 to 16 channels, 2 of 16, 16 to 32, 32, 32 to 64, 64; scales and shifts; fc.
  EXPECT_EQ(Parameters("resnet8"), 9u * (16 + 2 * 256 + 512 + 1024 + 2048 + 4096) +
                                       2 * (3 * 16 + 2 * 32 + 2 * 64) + 64 * 10 + 10);
}

TEST(Model, TensorsComeInForwardOrderWithNamesAndDecay) {
  const auto weights = WeightsOf(MakeModel("cnn", {1, 28, 28}, 10).value());
  std::vector<std::string> names;
  for (const TensorSpec& tensor : weights) {
    names.push_back(tensor.name);
    const bool decays = tensor.shape.size() > 1;
    EXPECT_EQ(tensor.decay_multiplier, decays ? 1.0f : 0.0f) << tensor.name;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("conv1.weight", "bn1.weight", "bn1.bias",
                                            "conv2.weight", "bn2.weight", "bn2.bias", "fc1.weight",
                                            "fc1.bias", "fc2.weight", "fc2.bias"));
  EXPECT_THAT(weights[3].shape, ::testing::ElementsAre(64, 32, 3, 3));
  const auto buffers = BuffersOf(MakeModel("cnn", {1, 28, 28}, 10).value());
  ASSERT_EQ(buffers.size(), 4u);
  EXPECT_EQ(buffers[1].name, "bn1.running_var");
}

TEST(Model, BlocksThatCannotBeSaySo) {
  const LayerSpec fork{"f", Fork{}}, last{"last", InnerProduct{3}};
  const LayerSpec narrow{"narrow", Convolution{.outputs = 1, .kernel = 1}};
  const auto why = [&](std::vector<LayerSpec> layers) {
    layers.push_back(last);
    return std::string(ShapesOf({"m", {2, 5, 5}, std::move(layers)}).status().message());
  };
  EXPECT_EQ(why({fork, {"j", Join{}}}), "");
  EXPECT_EQ(why({{"j", Join{}}}), "layer j has no fork before it for 2 x 5 x 5 inputs");
  EXPECT_EQ(why({fork, fork}), "layer f is within another fork's block for 2 x 5 x 5 inputs");
  EXPECT_EQ(why({fork}), "the last fork has no join after it");
  EXPECT_EQ(why({fork, narrow, {"j", Join{}}}),
            "layer j does not meet its fork's shape for 1 x 5 x 5 inputs");
  EXPECT_EQ(why({fork, {"j", Join{2}}}),
            "layer j does not meet its fork's shape for 2 x 5 x 5 inputs");
  EXPECT_EQ(why({fork, {"j", Join{0}}}), "layer j has no stride for 2 x 5 x 5 inputs");
}

TEST(Model, MlpAndCnnTakeTheShapeOfTheData) {
  EXPECT_TRUE(MakeModel("mlp", {3, 5, 7}, 2).ok());
  EXPECT_TRUE(MakeModel("cnn", {3, 32, 32}, 100).ok());
  EXPECT_TRUE(MakeModel("cnn", {1, 4, 4}, 2).ok());
  EXPECT_TRUE(MakeModel("resnet8", {3, 32, 32}, 10).ok());
  EXPECT_TRUE(MakeModel("resnet8", {1, 7, 7}, 2).ok());
  EXPECT_FALSE(MakeModel("resnet8", {1, 7, 8}, 2).ok());
}

TEST(Model, ThatDoesNotFitTheDataSaysWhy) {
  EXPECT_EQ(MakeModel("lenet5", {1, 8, 8}, 10).status().message(),
            "model lenet5 does not fit the data (images of 1 x 8 x 8, 10 classes): it needs 1 x 28 "
            "x 28 and 10 classes");
  const auto cnn = MakeModel("cnn", {1, 3, 3}, 10).status();
  EXPECT_EQ(cnn.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cnn.message()),
              ::testing::HasSubstr("layer pool2 has too large a window for 64 x 1 x 1 inputs"));
}

TEST(Model, UnknownNameListsTheZoo) {
  const auto status = MakeModel("resnet", {1, 28, 28}, 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "no model 'resnet' in the zoo: mlp, lenet5, cnn and resnet8 are there");
}

TEST(Model, LayersThatDoNotFitAreNamed) {
  const auto error = [](const LayerSpec& layer) {
    return std::string(ShapesOf({"m", {1, 2, 2}, {layer}}).status().message());
  };
  EXPECT_THAT(error({"c", Convolution{.outputs = 1, .kernel = 3}}),
              ::testing::HasSubstr("layer c has too large a kernel for 1 x 2 x 2 inputs"));
  EXPECT_THAT(error({"d", Dropout{1.0f}}), ::testing::HasSubstr("layer d has a rate outside"));
  EXPECT_THAT(error({"p", MaxPool{.kernel = 2, .stride = 0}}), ::testing::HasSubstr("no stride"));
  EXPECT_THAT(error({"r", Relu{}}), ::testing::HasSubstr("one logit per class"));
}

TEST(Model, FirstWeightsAreDecidedBySeedAndTensor) {
  const auto weights = WeightsOf(MakeModel("lenet5", {1, 28, 28}, 10).value());
  std::vector<float> a(2400), b(2400), c(2400);
  Initialize(weights[2], 1, 2, absl::MakeSpan(a));
  Initialize(weights[2], 1, 2, absl::MakeSpan(b));
  EXPECT_EQ(a, b);
  Initialize(weights[2], 2, 2, absl::MakeSpan(c));
  EXPECT_NE(a, c);
  Initialize(weights[2], 1, 4, absl::MakeSpan(c));
  EXPECT_NE(a, c);
  // He: variance 2 / (6 * 25).
  double squares = 0;
  for (float value : a) squares += double{value} * value;
  EXPECT_NEAR(squares / 2400, 2.0 / 150, 0.001);
}

}  // namespace
}  // namespace strata::worker
