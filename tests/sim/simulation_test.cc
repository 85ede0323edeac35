// The cluster's cores under everything that the simulator can do to them.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "tests/sim/campaign.h"
#include "tests/sim/outcome.h"

namespace strata::sim {
namespace {

constexpr uint64_t kSeeds = 2000;

Scenario::Limits Small() { return {.nodes_max = 3, .chunks_max = 9}; }

TEST(SimulationTest, AllInvariantsHoldForAllSeedsAndEveryRareBranchIsTaken) {
  Campaign::Options options;
  options.seeds = kSeeds;
  options.jobs = std::thread::hardware_concurrency();
  const Campaign campaign = RunCampaign(options);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_EQ(campaign.runs, kSeeds);
  for (size_t i = 0; i < kRares; ++i) {
    EXPECT_GT(campaign.rare[i], 0u) << NameOf(static_cast<Rare>(i));
  }
  for (size_t i = 0; i < transport::kSimNotes; ++i) {
    EXPECT_GT(campaign.network[i], 0u) << NameOf(static_cast<transport::SimNote>(i));
  }
  EXPECT_GT(campaign.jobs_failed, 0u);
  EXPECT_GT(campaign.jobs_unharmed, 0u);
  // Sync jobs of equal shape ended with equal bits, whatever went wrong meanwhile.
  EXPECT_GT(campaign.models_compared, kSeeds / 4);
  EXPECT_GE(campaign.modes.size(), 11u);
  std::cout << campaign.Report();
}

TEST(SimulationTest, ASeedDecidesEveryEvent) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Outcome once = RunSeed(seed, Small());
    const Outcome again = RunSeed(seed, Small());
    EXPECT_EQ(once.log_hash, again.log_hash) << "seed " << seed;
    hashes.insert(once.log_hash);
  }
  EXPECT_EQ(hashes.size(), 40u);
}

TEST(SimulationTest, TheLogTellsEachEventInOneLineAndChangesNothing) {
  EventLog log(/*keep_text=*/true);
  const Outcome outcome = RunSeed(3, Small(), &log);
  EXPECT_EQ(outcome.log_hash, RunSeed(3, Small()).log_hash);
  for (const char* part : {"PUSHPULL", "ANSWER", "coordinator -> w0  start_node", "delivered"}) {
    EXPECT_NE(log.text().find(part), std::string::npos) << part;
  }
}

TEST(SimulationTest, EveryPushCountsOnceThoughThreeInTenFramesAreLostAndHalfComeTwice) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Scenario scenario = Scenario::Draw(seed, {.chunks_max = 30, .faults = false});
    scenario.timing.resend_after = absl::Milliseconds(20);
    scenario.faults.drop = 0.3;
    scenario.faults.duplicate = 0.5;
    scenario.faults.reorder = 0.3;
    EXPECT_EQ(RunScenario(scenario).violation, "") << "seed " << seed;
    if (HasFailure()) return;
  }
}

// A HELLO that is slower than the node's patience comes after that of the connection which the node
// made instead, and so does the end of the first connection.
TEST(SimulationTest, ConnectionsThatAreSlowerThanThePatienceForHelloHoldNothingUp) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Scenario scenario = Scenario::Draw(seed, {.chunks_max = 9, .jobs_max = 1, .faults = false});
    scenario.timing.hello_timeout = absl::Milliseconds(4);
    scenario.timing.backoff_min = absl::Milliseconds(1);
    scenario.timing.resend_after = absl::Milliseconds(100);
    scenario.faults.slow_connection = 0.4;
    scenario.faults.slow_delay_max = absl::Milliseconds(12);
    scenario.rare[static_cast<size_t>(Rare::kSlowRank)] = 0.05;
    EXPECT_EQ(RunScenario(scenario).violation, "") << "seed " << seed;
    if (HasFailure()) return;
  }
}

// Two nodes whose ranks publish at their own pace: without the reserved slot each fills its window
// with chunks that the other has no slot left for.
TEST(SimulationTest, NodesLockUpWithoutTheReservedSlotAndDoNotWithIt) {
  JobPlan plan;
  plan.nodes = 2;
  plan.chunks = 64;
  plan.clocks = 2;
  plan.window = 4;
  int locked_up = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario::Limits limits = {.shards_max = 1, .faults = false, .job = plan};
    EXPECT_EQ(RunSeed(seed, limits).violation, "");
    limits.reserve = worker::PushWindow::Reserve::kNothing;
    const Outcome outcome = RunSeed(seed, limits);
    if (outcome.violation.rfind("no deadlock", 0) == 0) ++locked_up;
  }
  EXPECT_GT(locked_up, 10);
}

}  // namespace
}  // namespace strata::sim
