#include "compare/virtual_time/compute_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

ClusterFile FileOf(const std::string& compute) {
  ClusterFile file{.cluster = *ParseCluster("nodes { compute { " + compute + " } }", "c"),
                   .traces = {{"t.ms", {1, 2, 3, 4, 5}}}};
  FillClusterDefaults(&file.cluster);
  return file;
}

std::vector<double> Times(const ClusterFile& file, uint32_t rank, size_t steps, uint64_t seed = 1) {
  const ComputeTime time(file, 0, seed, rank);
  std::vector<double> ms;
  for (size_t step = 0; step < steps; ++step) {
    ms.push_back(absl::ToDoubleMilliseconds(time.Of(step)));
  }
  return ms;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(ComputeTime, IsConstantTimesSlow) {
  EXPECT_EQ(Times(FileOf("constant_ms: 2.5 slow: 4"), 3, 3), (std::vector<double>{10, 10, 10}));
}

TEST(ComputeTime, HasTheDistributionThatWasAskedFor) {
  const auto normal = Times(FileOf("normal { mean_ms: 20 deviation_ms: 3 }"), 0, 20000);
  EXPECT_NEAR(Mean(normal), 20, 0.1);
  std::vector<double> squares;
  for (const double ms : normal) squares.push_back((ms - 20) * (ms - 20));
  EXPECT_NEAR(std::sqrt(Mean(squares)), 3, 0.1);
  auto log_normal = Times(FileOf("log_normal { median_ms: 20 sigma: 0.5 }"), 0, 20001);
  EXPECT_NEAR(Mean(log_normal), 20 * std::exp(0.125), 0.3);
  std::nth_element(log_normal.begin(), log_normal.begin() + 10000, log_normal.end());
  EXPECT_NEAR(log_normal[10000], 20, 0.3);
}

TEST(ComputeTime, IsNeverNegative) {
  const auto times = Times(FileOf("normal { mean_ms: 1 deviation_ms: 10 }"), 0, 1000);
  EXPECT_EQ(*std::min_element(times.begin(), times.end()), 0);
}

TEST(ComputeTime, IsAFunctionOfSeedRankAndStep) {
  const ClusterFile file = FileOf("normal { mean_ms: 20 deviation_ms: 3 }");
  EXPECT_EQ(Times(file, 1, 50), Times(file, 1, 50));
  EXPECT_NE(Times(file, 1, 50), Times(file, 2, 50));
  EXPECT_NE(Times(file, 1, 50, 1), Times(file, 1, 50, 2));
}

TEST(ComputeTime, TracesAreCycledFromALineOfTheRanksOwn) {
  const ClusterFile file = FileOf("trace_file: \"t.ms\" slow: 2");
  std::vector<double> begins;
  for (uint32_t rank = 0; rank < 40; ++rank) {
    const auto times = Times(file, rank, 7);
    for (size_t step = 0; step + 1 < times.size(); ++step) {
      EXPECT_EQ(times[step + 1], times[step] == 10 ? 2 : times[step] + 2) << rank;
    }
    begins.push_back(times[0]);
  }
  std::sort(begins.begin(), begins.end());
  EXPECT_EQ(std::unique(begins.begin(), begins.end()) - begins.begin(), 5);
}

}  // namespace
}  // namespace strata::compare
