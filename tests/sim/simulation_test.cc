// The cluster's cores under everything that the simulator can do to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/sim/campaign.h"
#include "tests/sim/check/profile.h"
#include "tests/sim/cluster/outcome.h"

namespace strata::sim {
namespace {

constexpr uint64_t kSeeds = 2000;

constexpr char kSmall[] = "small";

Campaign RunProfile(const std::string& profile, uint64_t seeds, size_t failures_max = 3) {
  Campaign::Options options;
  options.Take(*FindProfile(profile));
  options.seeds = seeds;
  options.jobs = std::thread::hardware_concurrency();
  options.failures_max = failures_max;
  return RunCampaign(options);
}

TEST(SimulationTest, AllInvariantsHoldForAllSeedsAndEveryRareBranchIsTaken) {
  const Campaign campaign = RunProfile("all", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_EQ(campaign.runs, kSeeds);
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
  EXPECT_GT(campaign.models_compared, kSeeds / 4);
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
  const Campaign campaign = RunProfile("lossy", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
}

TEST(SimulationTest, JobsEndWellOrByWhatWasDoneToThemWhateverBefallsCoordinatorAndDaemons) {
  const Campaign campaign = RunProfile("control", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.jobs_failed, kSeeds / 20);
  EXPECT_GT(campaign.jobs_cancelled, kSeeds / 20);
  EXPECT_GT(campaign.jobs_unharmed, kSeeds / 10);
}

TEST(SimulationTest, NoStepIsLostWhileACopyOfEachShardIsLeftWhateverBefallsServers) {
  const Campaign campaign = RunProfile("replicas", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  for (size_t i = kRaresWithoutCopies; i < kRaresOfStayingNodes; ++i) {
    EXPECT_GT(campaign.rare[i], 60u) << ToString(static_cast<Rare>(i));
  }
  EXPECT_GT(campaign.jobs_failed, 150u);  // both copies of a shard were lost, or it was about to
                                          // begin
  EXPECT_GT(campaign.models_compared, 100u);
  EXPECT_GE(campaign.modes.size(), 30u);
}

TEST(SimulationTest, NoStepIsLostWhileLostCopiesAreFilledAnewAndTakeOver) {
  const Campaign campaign = RunProfile("new-copies", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kNewCopyWhole)], 1600u);
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kLateCopyTakesOver)], 600u);
  EXPECT_GT(campaign.models_compared, 40u);
  EXPECT_GE(campaign.modes.size(), 30u);
}

TEST(SimulationTest, EachClockHasThePushesOfItsNodesWhoeverComesAndGoes) {
  const Campaign campaign = RunProfile("elastic", kSeeds + 200);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  for (size_t i = kRaresOfStayingNodes; i < kRaresWithoutDrops; ++i) {
    EXPECT_GT(campaign.rare[i], 100u) << ToString(static_cast<Rare>(i));
  }
  EXPECT_GE(campaign.modes.size(), 9u);
}

// At its end the job has the weights of a job whose node left as planned: the checker adds them up.
TEST(SimulationTest, WhereAWorkerStandsInForOneThatDiesTheJobGoesOnWithoutItsNode) {
  const Campaign campaign = RunProfile("stand-in", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kStandsIn)], 600u);
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kLeavesStandIn)], 600u);
  EXPECT_LT(campaign.jobs_failed, 300u);  // a worker was lost before the job trained
}

TEST(SimulationTest, EachClockHasThePushesOfItsNodesWhileServersDie) {
  const Campaign campaign = RunProfile("elastic-replicas", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  for (const Rare rare : {Rare::kJoined, Rare::kLeft, Rare::kTakenOver, Rare::kNewCopyWhole}) {
    EXPECT_GT(campaign.rare[static_cast<size_t>(rare)], 100u) << ToString(rare);
  }
  for (size_t i = kRaresWithoutMoves; i < kRares; ++i) {
    EXPECT_GT(campaign.rare[i], 60u) << ToString(static_cast<Rare>(i));
  }
}

TEST(SimulationTest, AnAllReduceGoesOnWithTheBitsOfThoseThatAreLeftWheneverNodesDie) {
  const Campaign campaign = RunProfile("ring-losses", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  for (size_t i = kRaresWithoutDrops; i < kRaresWithoutMoves; ++i) {
    EXPECT_GT(campaign.rare[i], 50u) << ToString(static_cast<Rare>(i));
  }
  EXPECT_GT(campaign.jobs_failed, 50u);  // too few were left, or it was about to begin
  EXPECT_GT(campaign.models_compared, 50u);
}

TEST(SimulationTest, NodesThatAllReduceHaveTheBitsOfOneOptimizerWhateverHappens) {
  const Campaign campaign = RunProfile("ring", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.models_compared, 600u);
}

TEST(SimulationTest, NodesOfARingThatEncodesHaveTheBitsOfTheModelWhateverHappens) {
  const Campaign campaign = RunProfile("ring-codecs", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
}

TEST(SimulationTest, NodesHaveWhatTheShardThinksThatTheyHaveAndWhatIsLostReturns) {
  for (const char* profile : {"codecs", "lossy-codecs"}) {
    const Campaign campaign = RunProfile(profile, kSeeds);
    EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
    EXPECT_EQ(campaign.runs, kSeeds);
    EXPECT_GE(campaign.modes.size(), 11u);
  }
}

TEST(SimulationTest, LocalStepsAndDoubleBufferingFollowTheirFormulasWhateverHappens) {
  for (const char* profile : {"layers", "encoded-layers"}) {
    const Campaign campaign = RunProfile(profile, kSeeds);
    EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
    EXPECT_EQ(campaign.runs, kSeeds);
    EXPECT_GE(campaign.modes.size(), 7u);
  }
}

TEST(SimulationTest, LarsAndClippingFollowTheirFormulasWhateverHappens) {
  const Campaign campaign = RunProfile("norms", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GE(campaign.modes.size(), 10u);
  EXPECT_GT(campaign.models_compared, 80u);
}

TEST(SimulationTest, AQuorumClosesClocksAsTheModelDoesWhateverHappens) {
  const Campaign campaign = RunProfile("quorum", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GE(campaign.modes.size(), 20u);
}

TEST(SimulationTest, EachUpdateHasTheRateThatItsStepsWereSaidToHaveWhateverHappens) {
  const Campaign campaign = RunProfile("rates", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GE(campaign.modes.size(), 30u);
  EXPECT_GT(campaign.models_compared, 100u);
}

TEST(SimulationTest, WhoIsOnTheWayOfSealedFramesEndsConnectionsAtMostWhateverHeDoes) {
  const Campaign campaign = RunProfile("sealed", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
  EXPECT_GT(campaign.rare[static_cast<size_t>(Rare::kRepeatedConnection)], 800u);
  EXPECT_GT(campaign.network[static_cast<size_t>(transport::SimNote::kCorrupted)], 400u);
  EXPECT_GT(campaign.models_compared, 200u);
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
  const Campaign campaign = RunProfile("slow-connections", kSeeds);
  EXPECT_TRUE(campaign.failures.empty()) << campaign.Report();
}

TEST(SimulationTest, NodesBeginWithRank0sWeightsWhateverHappens) {
  for (const char* profile : {"first-weights", "ring-first-weights", "encoded-first-weights"}) {
    const Campaign campaign = RunProfile(profile, kSeeds);
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
