// The first step of each model for ImageNet, at its full size and a batch of one or two images.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/random.h"
#include "training/nn/bound_network.h"
#include "training/nn/models/zoo.h"

namespace strata::worker {
namespace {

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
}  // namespace strata::worker
