#include "training/nn/network/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "training/nn/network/zoo.h"

namespace strata::training {
namespace {

TEST(Model, TensorsComeInForwardOrderWithNamesAndDecay) {
  const auto weights = ListWeights(MakeModel("cnn", {1, 28, 28}, 10).value());
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
  const auto buffers = ListBuffers(MakeModel("cnn", {1, 28, 28}, 10).value());
  ASSERT_EQ(buffers.size(), 4u);
  EXPECT_EQ(buffers[1].name, "bn1.running_var");
}

TEST(Model, BlocksThatCannotBeSaySo) {
  const LayerSpec fork{"f", Fork{}}, last{"last", InnerProduct{3}};
  const LayerSpec narrow{"narrow", Convolution{.outputs = 1, .kernel = 1}};
  const LayerSpec branch{"b", Branch{}};
  const auto why = [&](std::vector<LayerSpec> layers) {
    layers.push_back(last);
    return std::string(FollowShapes({"m", {2, 5, 5}, std::move(layers)}).status().message());
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
  EXPECT_EQ(why({fork, branch, {"j", Join{}}}), "");
  EXPECT_EQ(why({{"b", Branch{}}}), "layer b has no fork before it for 2 x 5 x 5 inputs");
  EXPECT_EQ(why({fork, branch}), "the last fork has no join after it");
  EXPECT_EQ(why({fork, narrow, branch, {"j", Join{}}}),
            "layer j joins branches of other shapes for 2 x 5 x 5 inputs");
  EXPECT_EQ(why({fork, branch, {"j", Join{2}}}),
            "layer j has a stride, but no shortcut to take it for 2 x 5 x 5 inputs");
  EXPECT_EQ(why({{"c", Concat{}}}), "layer c has no fork before it for 2 x 5 x 5 inputs");
  EXPECT_EQ(why({fork, {"p", MaxPool{}}, branch, {"c", Concat{}}}),
            "layer c joins branches of other heights or widths for 2 x 5 x 5 inputs");
}

TEST(Model, ConcatHasTheChannelsOfAllBranches) {
  const auto shapes = FollowShapes({"m",
                                    {2, 6, 5},
                                    {{"f", Fork{}},
                                     {"a", Convolution{.outputs = 3, .kernel = 1}},
                                     {"b", Branch{}},
                                     {"p", MaxPool{3, 1, 1}},
                                     {"b2", Branch{}},
                                     {"c", Concat{}},
                                     {"g", GlobalAveragePool{}}}});
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_EQ((*shapes)[5].output, (Shape{3 + 2 + 2, 6, 5}));
  EXPECT_EQ((*shapes)[6].output, (Shape{7, 1, 1}));
}

TEST(Model, PaddingOfPoolingCountsOnBothSides) {
  const auto pooled = [](uint32_t size, const MaxPool& pool) {
    return (*FollowShapes({"m", {1, size, size}, {{"p", pool}, {"g", GlobalAveragePool{}}}}))[0]
        .output;
  };
  EXPECT_EQ(pooled(112, {3, 2, 1}), (Shape{1, 56, 56}));
  EXPECT_EQ(pooled(7, {3, 2, 1}), (Shape{1, 4, 4}));
  EXPECT_EQ(pooled(7, {3, 1, 1}), (Shape{1, 7, 7}));
}

TEST(Model, LayersThatDoNotFitAreNamed) {
  const auto error = [](const LayerSpec& layer) {
    return std::string(FollowShapes({"m", {1, 2, 2}, {layer}}).status().message());
  };
  EXPECT_THAT(error({"c", Convolution{.outputs = 1, .kernel = 3}}),
              ::testing::HasSubstr("layer c has too large a kernel for 1 x 2 x 2 inputs"));
  EXPECT_THAT(error({"d", Dropout{1.0f}}), ::testing::HasSubstr("layer d has a rate outside"));
  EXPECT_THAT(error({"p", MaxPool{.kernel = 2, .stride = 0}}), ::testing::HasSubstr("no stride"));
  EXPECT_THAT(error({"p", MaxPool{.kernel = 2, .padding = 2}}),
              ::testing::HasSubstr("layer p has a padding of a whole kernel"));
  EXPECT_THAT(error({"r", Relu{}}), ::testing::HasSubstr("one logit per class"));
}

TEST(Model, FirstWeightsAreDecidedBySeedAndTensor) {
  const auto weights = ListWeights(MakeModel("lenet5", {1, 28, 28}, 10).value());
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
}  // namespace strata::training
