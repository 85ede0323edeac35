#include "compare/virtual_time/problem/step_shape.h"

#include "gtest/gtest.h"
#include "training/nn/models/zoo.h"

namespace strata::compare {
namespace {

TEST(StepShape, SharesAreThoseOfMultiplications) {
  // 10 x 10 values of one channel: 4 x 8 x 8 x 9 = 2304 multiplications, then 2 x 256 of Relu;
  // 5 x 256 = 1280, and 3 x 5 = 15.
  const worker::ModelSpec model{.name = "m",
                                .input = {1, 10, 10},
                                .layers = {{"c", worker::Convolution{.outputs = 4, .kernel = 3}},
                                           {"r", worker::Relu{}},
                                           {"f", worker::Flatten{}},
                                           {"a", worker::InnerProduct{.outputs = 5}},
                                           {"b", worker::InnerProduct{.outputs = 3}}}};
  const auto stages = MakeStages(model);
  ASSERT_EQ(stages.status(), absl::OkStatus());
  ASSERT_EQ(stages->size(), 3u);
  const double forward = 2304 + 512 + 1280 + 15, backward = 2304 + 2 * (512 + 1280 + 15);
  EXPECT_DOUBLE_EQ((*stages)[0].forward, (2304 + 512) / forward);
  EXPECT_DOUBLE_EQ((*stages)[0].backward, (2304 + 2 * 512) / backward);
  EXPECT_DOUBLE_EQ((*stages)[1].forward, 1280 / forward);
  EXPECT_DOUBLE_EQ((*stages)[1].backward, 2 * 1280 / backward);
  EXPECT_DOUBLE_EQ((*stages)[2].backward, 2 * 15 / backward);
  EXPECT_EQ((*stages)[0].first_weight, 0);
  EXPECT_EQ((*stages)[1].first_weight, 2);
  EXPECT_EQ((*stages)[2].weights, 2);
}

TEST(StepShape, AllModelsOfTheZooHaveOne) {
  for (const char* name : {"mlp", "lenet5", "cnn", "resnet8", "resnet20", "alexnet", "vgg16",
                           "googlenet", "resnet50"}) {
    const bool is_small = std::string(name) == "lenet5";
    const auto model =
        worker::MakeModel(name, is_small ? worker::Shape{1, 28, 28} : worker::Shape{3, 64, 64}, 10);
    ASSERT_EQ(model.status(), absl::OkStatus());
    const auto stages = MakeStages(*model);
    ASSERT_EQ(stages.status(), absl::OkStatus());
    double forward = 0, backward = 0;
    int weights = 0;
    for (const StepStage& stage : *stages) {
      EXPECT_EQ(stage.first_weight, weights) << name;
      weights += stage.weights;
      forward += stage.forward;
      backward += stage.backward;
    }
    EXPECT_EQ(weights, static_cast<int>(worker::ListWeights(*model).size())) << name;
    EXPECT_NEAR(forward, 1, 1e-12) << name;
    EXPECT_NEAR(backward, 1, 1e-12) << name;
  }
}

}  // namespace
}  // namespace strata::compare
