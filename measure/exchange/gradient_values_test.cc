#include "measure/exchange/gradient_values.h"

#include <vector>

#include "gtest/gtest.h"

namespace strata::bench {
namespace {

std::vector<float> SumOf(uint32_t ranks, uint64_t step, size_t count) {
  std::vector<float> sum(count), gradient(count);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    FillGradient(rank, step, absl::MakeSpan(gradient));
    for (size_t i = 0; i < count; ++i) sum[i] += gradient[i];
  }
  return sum;
}

TEST(GradientValuesTest, TheSumIsKnownAndNoOtherPassesForIt) {
  for (uint64_t step : {0, 1, 2, 77}) {
    std::vector<float> sum = SumOf(3, step, 1003);
    EXPECT_TRUE(IsGradientSum(3, step, sum));
    EXPECT_FALSE(IsGradientSum(2, step, sum));
    EXPECT_FALSE(IsGradientSum(3, step + 1, sum));
    EXPECT_FALSE(IsGradientSum(3, step + 2, sum));
    sum[1002] += 1;
    EXPECT_FALSE(IsGradientSum(3, step, sum));
  }
}

TEST(GradientValuesTest, WeightsDescendBySumsAndComeBackAfterTwoSteps) {
  std::vector<float> weights(100, 0.5f);
  Descend(4, 6, 0.25f, absl::MakeSpan(weights));
  const std::vector<float> sum = SumOf(4, 6, 100);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(weights[i], 0.5f - 0.25f * sum[i]);
  Descend(4, 7, 0.25f, absl::MakeSpan(weights));
  EXPECT_EQ(weights, std::vector<float>(100, 0.5f));
}

}  // namespace
}  // namespace strata::bench
