#include "tests/sim/cluster/rows_job.h"

#include "gtest/gtest.h"

namespace strata::sim {
namespace {

TEST(RowsJobTest, RowsCountExactlyOnceOverConnectionsThatBreak) {
  constexpr uint64_t kSeeds = 180;
  RowsOutcome all;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RowsOutcome one = RunRowsJob(seed);
    ASSERT_EQ(one.violation, "") << "seed " << seed;
    all.looked_up += one.looked_up;
    all.prefetched += one.prefetched;
    all.breaks += one.breaks;
    all.goes_on += one.goes_on;
  }
  EXPECT_GT(all.looked_up, 300 * kSeeds);
  EXPECT_GT(all.prefetched, all.looked_up / 4);
  EXPECT_GT(all.breaks, 2 * kSeeds);
  EXPECT_GT(all.goes_on, kSeeds / 3);
}

}  // namespace
}  // namespace strata::sim
