#include "optimizer/update.h"

#include <vector>

#include "gtest/gtest.h"

namespace strata::kernels {
namespace {

TEST(ApplyUpdate, GivesEachRunItsOwnRateAndDecay) {
  OptimizerParams params;
  params.kind = OptimizerKind::kSgd;
  params.weight_decay = 0.5f;
  const std::vector<OptimizerRun> runs = {{0, 2, 1.0f, 1.0f}, {2, 1, 2.0f, 0.0f}};
  const std::vector<float> gradient = {4.0f, 8.0f, 16.0f};
  const std::vector<float> w = {1.0f, 2.0f, 3.0f};
  std::vector<float> next(3);
  ApplyUpdate(Cpu(), params, {.lr = 0.25, .gradient_scale = 0.5f, .number = 1}, runs,
              gradient.data(), w.data(), next.data(), nullptr, nullptr);
  EXPECT_EQ(next,
            (std::vector<float>{1.0f - 0.25f * 2.5f, 2.0f - 0.25f * 5.0f, 3.0f - 0.5f * 8.0f}));
}

TEST(ApplyUpdate, RunsThatAreAveragedBecomeTheMean) {
  OptimizerParams params;
  params.kind = OptimizerKind::kSgd;
  const std::vector<OptimizerRun> runs = {{.offset = 0, .count = 1},
                                          {.offset = 1, .count = 2, .averaged = true}};
  const std::vector<float> sum = {4.0f, 8.0f, 16.0f};
  std::vector<float> w = {1.0f, 2.0f, 3.0f};
  ApplyUpdate(Cpu(), params, {.lr = 0.5, .gradient_scale = 0.25f}, runs, sum.data(), w.data(),
              w.data(), nullptr, nullptr);
  EXPECT_EQ(w, (std::vector<float>{0.5f, 2.0f, 4.0f}));
}

TEST(ApplyUpdate, KeepsStateOfEveryRunInPlace) {
  OptimizerParams params;
  params.kind = OptimizerKind::kMomentumSgd;
  params.momentum = 0.5f;
  const std::vector<OptimizerRun> runs = {{0, 1, 1.0f, 1.0f}, {1, 1, 1.0f, 0.0f}};
  const std::vector<float> gradient = {1.0f, 2.0f};
  std::vector<float> w = {0.0f, 0.0f}, v = {4.0f, 8.0f};
  ApplyUpdate(Cpu(), params, {.lr = 1.0, .gradient_scale = 1.0f, .number = 3}, runs,
              gradient.data(), w.data(), w.data(), v.data(), nullptr);
  EXPECT_EQ(v, (std::vector<float>{3.0f, 6.0f}));
  EXPECT_EQ(w, (std::vector<float>{-3.0f, -6.0f}));
}

}  // namespace
}  // namespace strata::kernels
