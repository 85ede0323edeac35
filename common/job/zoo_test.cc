#include "common/job/zoo.h"

#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(Zoo, TakesTheSmallestImagesThatItSaysAndNoSmallerOnes) {
  for (const auto& [name, size] : std::vector<std::pair<std::string, uint32_t>>{
           {"cnn", 4}, {"alexnet", 63}, {"vgg16", 32}, {"googlenet", 32}, {"resnet50", 32}}) {
    EXPECT_EQ(CheckZooInput(name, "d", {3, size, size + 1, 10}), absl::OkStatus()) << name;
    EXPECT_EQ(CheckZooInput(name, "d", {3, size + 1, size - 1, 10}).code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(Zoo, LeNetTakesWhatMnistHas) {
  EXPECT_EQ(CheckZooInput("lenet5", "d", {1, 28, 28, 10}), absl::OkStatus());
  EXPECT_EQ(CheckZooInput("lenet5", "d", {1, 28, 28, 9}).message(),
            "model lenet5 does not fit d (images of 1 x 28 x 28, 9 classes): it needs 1 x 28 x 28 "
            "and 10 classes");
}

TEST(Zoo, UnknownNameListsIt) {
  const absl::Status status = CheckZooInput("resnet", "d", {1, 28, 28, 10});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "no model 'resnet' in the zoo: mlp, lenet5, cnn, resnet8, resnet20, alexnet, vgg16, "
            "googlenet, resnet50 are there");
}

}  // namespace
}  // namespace strata
