// The cluster's cores under everything that the simulator can do to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/sim/campaign.h"
#include "tests/sim/check/profile.h"
#include "tests/sim/cluster/outcome.h"

namespace strata::sim {
namespace {

// The seeds of each profile. What a run must have met at least is written for 2,000 of them.
uint64_t seeds = 2000;
uint64_t Of2000(uint64_t count) { return count * seeds / 2000; }

constexpr char kSmall[] = "small";

Campaign RunProfile(const std::string& profile, uint64_t of_profile, size_t failures_max = 3) {
  Campaign::Options options;
  options.Take(*FindProfile(profile));
  options.seeds = of_profile;
  options.jobs = std::thread::hardware_concurrency();
  options.failures_max = failures_max;
  return RunCampaign(options);
}

TEST(SimulationTest, AllInvariantsHoldForAllSeedsAndEveryRareBranchIsTaken) {
  const Campaign campaign = RunProfile("all", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_EQ(campaign.runs, seeds);
  for (size_t i = 0; i < kRaresWithoutCopies; ++i) {
    EXPECT_GT(campaign.rare[i], 0u) << ToString(static_cast<Rare>(i));
  }
  for (size_t i = 0; i < transport::kSimNotes; ++i) {
    EXPECT_GT(campaign.network[i], 0u) << ToString(static_cast<transport::SimNote>(i));
  }
  EXPECT_GT(campaign.jobs_failed, 0u);
  EXPECT_GT(campaign.jobs_cancelled, 0u);
  EXPECT_GT(campaign.jobs_unharmed, 0u);
  // Sync jobs of equal shape ended with equal bits, despite all faults.
  EXPECT_GT(campaign.models_compared, seeds / 4);
  EXPECT_GE(campaign.modes.size(), 11u);
  std::cout << campaign.Report();
}

TEST(SimulationTest, ASeedDecidesEveryEvent) {
  const Scenario::Limits limits = FindProfile(kSmall)->limits;
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Outcome once = RunSeed(seed, limits);
    const Outcome again = RunSeed(seed, limits);
    EXPECT_EQ(once.log_hash, again.log_hash) << ReplayCommand(seed, " --profile small");
    hashes.insert(once.log_hash);
  }
  EXPECT_EQ(hashes.size(), 40u);
}

TEST(SimulationTest, TheLogTellsEachEventInOneLineAndChangesNothing) {
  const Scenario::Limits limits = FindProfile(kSmall)->limits;
  EventLog log(/*keep_text=*/true);
  const Outcome outcome = RunSeed(3, limits, &log);
  EXPECT_EQ(outcome.log_hash, RunSeed(3, limits).log_hash);
  for (const char* part : {"PUSHPULL", "ANSWER", "coordinator -> w0  start_node", "delivered"}) {
    EXPECT_NE(log.text().find(part), std::string::npos) << part;
  }
}

TEST(SimulationTest, EveryPushCountsOnceThoughThreeInTenFramesAreLostAndHalfComeTwice) {
  const Campaign campaign = RunProfile("lossy", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
}

TEST(SimulationTest, JobsEndWellOrByWhatWasDoneToThemWhateverBefallsCoordinatorAndDaemons) {
  const Campaign campaign = RunProfile("control", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.jobs_failed, seeds / 20);
  EXPECT_GT(campaign.jobs_cancelled, seeds / 20);
  EXPECT_GT(campaign.jobs_unharmed, seeds / 10);
}

TEST(SimulationTest, NoStepIsLostWhileACopyOfEachShardIsLeftWhateverBefallsServers) {
  const Campaign campaign = RunProfile("replicas", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  for (size_t i = kRaresWithoutCopies; i < kRaresOfStayingNodes; ++i) {
    EXPECT_GT(campaign.rare[i], Of2000(60)) << ToString(static_cast<Rare>(i));
  }
  EXPECT_GT(campaign.jobs_failed, Of2000(150));  // both copies of a shard were lost, or it was
                                                 // about to begin
  EXPECT_GT(campaign.models_compared, Of2000(100));
  EXPECT_GE(campaign.modes.size(), 30u);
}

TEST(SimulationTest, NoStepIsLostWhileLostCopiesAreFilledAnewAndTakeOver) {
  const Campaign campaign = RunProfile("new-copies", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kNewCopyWhole)], Of2000(1600));
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kLateCopyTakesOver)], Of2000(600));
  EXPECT_GT(campaign.models_compared, Of2000(40));
  EXPECT_GE(campaign.modes.size(), 30u);
}

TEST(SimulationTest, EachClockHasThePushesOfItsNodesWhoeverComesAndGoes) {
  const Campaign campaign = RunProfile("elastic", seeds + Of2000(200));
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  for (size_t i = kRaresOfStayingNodes; i < kRaresWithoutDrops; ++i) {
    EXPECT_GT(campaign.rare[i], Of2000(100)) << ToString(static_cast<Rare>(i));
  }
  EXPECT_GE(campaign.modes.size(), 9u);
}

// At its end the job has the weights of a job whose node left as planned: the checker adds them up.
TEST(SimulationTest, WhereAWorkerStandsInForOneThatDiesTheJobGoesOnWithoutItsNode) {
  const Campaign campaign = RunProfile("stand-in", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kStandsIn)], Of2000(600));
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kLeavesStandIn)], Of2000(600));
  EXPECT_LT(campaign.jobs_failed, Of2000(300));  // a worker was lost before the job trained
}

TEST(SimulationTest, EachClockHasThePushesOfItsNodesWhileServersDie) {
  const Campaign campaign = RunProfile("elastic-replicas", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  for (const Rare rare : {Rare::kJoined, Rare::kLeft, Rare::kTakenOver, Rare::kNewCopyWhole}) {
    EXPECT_GT(campaign.rare[static_cast<size_t>(rare)], Of2000(100)) << ToString(rare);
  }
  for (size_t i = kRaresWithoutMoves; i < kRares; ++i) {
    EXPECT_GT(campaign.rare[i], Of2000(60)) << ToString(static_cast<Rare>(i));
  }
}

TEST(SimulationTest, AnAllReduceGoesOnWithTheBitsOfThoseThatAreLeftWheneverNodesDie) {
  const Campaign campaign = RunProfile("ring-losses", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  for (size_t i = kRaresWithoutDrops; i < kRaresWithoutMoves; ++i) {
    EXPECT_GT(campaign.rare[i], Of2000(50)) << ToString(static_cast<Rare>(i));
  }
  EXPECT_GT(campaign.jobs_failed, Of2000(50));  // too few were left, or it was about to begin
  EXPECT_GT(campaign.models_compared, Of2000(Of2000(50)));  // as rare as pairs
}

TEST(SimulationTest, NodesThatAllReduceHaveTheBitsOfOneOptimizerWhateverHappens) {
  const Campaign campaign = RunProfile("ring", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.models_compared, Of2000(600));
}

TEST(SimulationTest, NodesOfARingThatEncodesHaveTheBitsOfTheModelWhateverHappens) {
  const Campaign campaign = RunProfile("ring-codecs", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
}

TEST(SimulationTest, NodesHaveWhatTheShardThinksThatTheyHaveAndWhatIsLostReturns) {
  for (const char* profile : {"codecs", "lossy-codecs"}) {
    const Campaign campaign = RunProfile(profile, seeds);
    EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
    EXPECT_EQ(campaign.runs, seeds);
    EXPECT_GE(campaign.modes.size(), 11u);
  }
}

TEST(SimulationTest, LocalStepsAndDoubleBufferingFollowTheirFormulasWhateverHappens) {
  for (const char* profile : {"layers", "encoded-layers"}) {
    const Campaign campaign = RunProfile(profile, seeds);
    EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
    EXPECT_EQ(campaign.runs, seeds);
    EXPECT_GE(campaign.modes.size(), 7u);
  }
}

TEST(SimulationTest, LarsAndClippingFollowTheirFormulasWhateverHappens) {
  const Campaign campaign = RunProfile("norms", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GE(campaign.modes.size(), 10u);
  EXPECT_GT(campaign.models_compared, Of2000(80));
}

TEST(SimulationTest, AQuorumClosesClocksAsTheModelDoesWhateverHappens) {
  const Campaign campaign = RunProfile("quorum", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GE(campaign.modes.size(), 20u);
}

TEST(SimulationTest, EachUpdateHasTheRateThatItsStepsWereSaidToHaveWhateverHappens) {
  const Campaign campaign = RunProfile("rates", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GE(campaign.modes.size(), 30u);
  EXPECT_GT(campaign.models_compared, Of2000(100));
}

TEST(SimulationTest, WhoIsOnTheWayOfSealedFramesEndsConnectionsAtMostWhateverHeDoes) {
  const Campaign campaign = RunProfile("sealed", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kRepeatedConnection)], Of2000(800));
  EXPECT_GT(campaign.network[static_cast<size_t>(transport::SimNote::kCorrupted)], Of2000(400));
  EXPECT_GT(campaign.models_compared, Of2000(200));
}

// The time of the three fast nodes' last step, as a share of the slow one's.
double ShareOfFastNodes(const char* profile) {
  const Outcome outcome = RunSeed(1, FindProfile(profile)->limits);
  EXPECT_TRUE(outcome.ok()) << outcome.violation;
  absl::Duration fast;
  for (uint32_t n : {0, 1, 2}) fast = std::max(fast, outcome.trained_at.at({1, n}));
  return absl::FDivDuration(fast, outcome.trained_at.at({1, 3}));
}

TEST(SimulationTest, AQuorumOfThreeIsNotHeldUpByTheFourthNode) {
  EXPECT_LT(ShareOfFastNodes("slow-node"), 0.2);
  EXPECT_GT(ShareOfFastNodes("slow-node-awaited"), 0.9);
}

// A HELLO that arrives after the node's deadline comes after that of the node's next connection,
// and so does the end of the first connection.
TEST(SimulationTest, ConnectionsThatAreSlowerThanThePatienceForHelloHoldNothingUp) {
  const Campaign campaign = RunProfile("slow-connections", seeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
}

TEST(SimulationTest, NodesBeginWithRank0sWeightsWhateverHappens) {
  for (const char* profile : {"first-weights", "ring-first-weights", "encoded-first-weights"}) {
    const Campaign campaign = RunProfile(profile, seeds);
    EXPECT_TRUE(campaign.failures.empty()) << profile << ": " << campaign.Report();
  }
}

// Without the reserved slot each node fills its window with chunks for which the other has no slot
// left.
TEST(SimulationTest, NodesLockUpWithoutTheReservedSlotAndDoNotWithIt) {
  const Campaign with = RunProfile("two-paces", 20);
  EXPECT_TRUE(with.failures.empty()) << with.Report();
  int locked_up = 0;
  for (const Campaign::Failure& failure : RunProfile("no-reserved-slot", 20, 21).failures) {
    if (failure.violation.rfind("no deadlock", 0) == 0) ++locked_up;
  }
  EXPECT_GT(locked_up, 10);
}

Outcome Ended(uint64_t seed, uint64_t hash) {
  Outcome outcome;
  outcome.scenario.seed = seed;
  outcome.models = {{"2 ranks", hash}};
  return outcome;
}

TEST(CampaignTest, AnotherFinalModelNamesBothSeedsAndTheCommandThatComparesThem) {
  Campaign campaign;
  campaign.flags = " --profile small";
  campaign.Add(Ended(4, 1));
  campaign.Add(Ended(9, 2));
  ASSERT_EQ(campaign.failures.size(), 1u);
  EXPECT_EQ(campaign.failures[0].violation,
            "G2 order of bits: another final model than seed 4's: 2 ranks");
  EXPECT_EQ(campaign.failures[0].replay,
            "bazel run //tests/sim:simulate -- --compare 4,9 --profile small");
}

TEST(CampaignTest, SeedsOfOneShapeAreComparedByTheirFinalModels) {
  std::ostringstream out;
  EXPECT_TRUE(CompareModels(1, 2, FindProfile("two-paces")->limits, out)) << out.str();
  EXPECT_NE(out.str().find("1 final models compared"), std::string::npos) << out.str();
}

TEST(CampaignTest, EveryProfileHasANameThatFindsIt) {
  for (const Profile& profile : Profiles()) EXPECT_EQ(FindProfile(profile.name), &profile);
  EXPECT_EQ(FindProfile("none"), nullptr);
}

}  // namespace
}  // namespace strata::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    constexpr absl::string_view kOption = "--seeds=";
    absl::string_view word = argv[i];
    if (!absl::ConsumePrefix(&word, kOption) || !absl::SimpleAtoi(word, &strata::sim::seeds)) {
      std::cerr << "usage: simulation_test [--seeds=N]\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
