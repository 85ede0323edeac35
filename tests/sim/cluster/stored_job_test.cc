// Jobs that write their checkpoints to a faulty disk, are stopped at any point, and continue.
#include "tests/sim/cluster/stored_job.h"

#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::sim {
namespace {

constexpr uint64_t kSeeds = 600;

TEST(StoredJobTest, AJobEndsAsAnUndisturbedOneDoesWhateverBecomesOfItsStore) {
  StoredOutcome all;
  std::map<std::string, int> jobs;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const StoredOutcome one = RunStoredJob(seed);
    ASSERT_EQ(one.violation, "") << "seed " << seed << ", " << one.job;
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ", " << one.job;
    ++jobs[one.job];
    all.attempts += one.attempts;
    all.resumed += one.resumed;
    all.kept += one.kept;
    all.refused += one.refused;
    all.crashes_in_writes += one.crashes_in_writes;
    all.crashes_in_keeping += one.crashes_in_keeping;
    all.failed_keeps += one.failed_keeps;
    all.moved += one.moved;
  }
  std::printf(
      "attempts %u resumed %u kept %u refused %u crashes in writes %u keeping %u failed %u "
      "moved %u\n",
      all.attempts, all.resumed, all.kept, all.refused, all.crashes_in_writes,
      all.crashes_in_keeping, all.failed_keeps, all.moved);
  // Every kind of event has occurred.
  EXPECT_EQ(jobs.size(), 5u);
  EXPECT_GT(all.resumed, kSeeds / 2);
  EXPECT_GT(all.kept, kSeeds);
  EXPECT_GT(all.refused, kSeeds / 20);
  EXPECT_GT(all.crashes_in_writes, kSeeds / 10);
  EXPECT_GT(all.crashes_in_keeping, kSeeds / 40);
  EXPECT_GT(all.failed_keeps, kSeeds / 20);
  EXPECT_GT(all.moved, kSeeds / 20);
}

TEST(StoredJobTest, ASeedDecidesAllOfIt) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const StoredOutcome one = RunStoredJob(seed), again = RunStoredJob(seed);
    EXPECT_EQ(
        absl::StrCat(one.attempts, one.resumed, one.kept, one.refused, one.failed_keeps),
        absl::StrCat(again.attempts, again.resumed, again.kept, again.refused, again.failed_keeps));
  }
}

}  // namespace
}  // namespace strata::sim
