#include "worker/agent/node_life.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace strata::worker {

namespace {

NodeLife TwoRanks() { return NodeLife("w1", 1, 2, 2, true); }

constexpr ExitStatus kNodeLifeWell{};

TEST(NodeLife, IsFinishedOnceEveryChildEndedWell) {
  NodeLife life = TwoRanks();
  ASSERT_EQ(life.children(), 3);
  life.OnExit(0, kNodeLifeWell, "");
  life.OnExit(1, kNodeLifeWell, "");
  EXPECT_FALSE(life.finished());
  EXPECT_TRUE(life.only_aggregator_left());
  life.OnExit(2, kNodeLifeWell, "");
  EXPECT_TRUE(life.finished());
  EXPECT_FALSE(life.failed());
}

TEST(NodeLife, NamesRankNodeDaemonAndSignal) {
  NodeLife life = TwoRanks();
  life.OnExit(1, ExitStatus{0, 9}, "");
  EXPECT_TRUE(life.failed());
  EXPECT_FALSE(life.gone());
  EXPECT_EQ(life.Reason(), "rank 3 (node 1, w1): killed by signal 9 (Killed)");
}

TEST(NodeLife, LastWordsAreAReasonOnlyWhereTheProcessEndedByItself) {
  NodeLife killed = TwoRanks(), crashed = TwoRanks(), ended = TwoRanks();
  killed.OnExit(1, ExitStatus{0, 9}, "epoch 3");
  crashed.OnExit(1, ExitStatus{0, 6}, "Assertion failed: x > 0");
  ended.OnExit(1, ExitStatus{1, 0}, "ValueError");
  EXPECT_EQ(killed.Reason(), "rank 3 (node 1, w1): killed by signal 9 (Killed)");
  EXPECT_EQ(crashed.Reason(),
            "rank 3 (node 1, w1): killed by signal 6 (Aborted): Assertion failed: x > 0");
  EXPECT_EQ(ended.Reason(), "rank 3 (node 1, w1): exited with status 1: ValueError");
}

TEST(NodeLife, PrefersWhatTheChildSaidToItsExitStatus) {
  NodeLife life = TwoRanks();
  life.OnFailedLine(0, "loss is NaN at step 12");
  life.OnExit(0, ExitStatus{1, 0}, "last line of the log");
  EXPECT_EQ(life.Reason(), "rank 2 (node 1, w1): loss is NaN at step 12");
}

TEST(NodeLife, GivesTheLogsLastLineWhereTheChildSaidNothing) {
  NodeLife life = TwoRanks();
  life.OnExit(0, ExitStatus{1, 0}, "out of cheese");
  EXPECT_EQ(life.Reason(), "rank 2 (node 1, w1): exited with status 1: out of cheese");
}

TEST(NodeLife, SaysThatTheWheelIsMissingWhereAProgramsPythonHasNoPackage) {
  const auto reason = [](const std::string& words) {
    NodeLife life = TwoRanks();
    life.OnExit(0, ExitStatus{1, 0}, words);
    return life.Reason();
  };
  const std::string rank = "rank 2 (node 1, w1): exited with status 1: ";
  const std::string hint =
      "; is the wheel installed in this Python? deploy/wheel.sh makes it for pip install (a folder "
      "named strata, such as a clone, is not the package)";
  for (const std::string words :
       {"ModuleNotFoundError: No module named 'strata'",
        "ModuleNotFoundError: No module named 'strata.torch'",
        "ModuleNotFoundError: No module named 'strata.torch'; 'strata' is not a package",
        "AttributeError: module 'strata' has no attribute 'Session'",
        "ImportError: cannot import name 'Session' from 'strata' (unknown location)"}) {
    EXPECT_EQ(reason(words), rank + words + hint);
  }
  for (const std::string words :
       {"ModuleNotFoundError: No module named 'stratagem'",
        "ModuleNotFoundError: No module named 'torch'",
        "ImportError: cannot import name 'x' from 'strata' (/usr/lib/strata/__init__.py)",
        "AttributeError: module 'torch' has no attribute 'strata'"}) {
    EXPECT_EQ(reason(words), rank + words);
  }
}

TEST(NodeLife, PrefersALostRanksOwnEndToTheComplaintsOfThoseThatLostIt) {
  NodeLife life = TwoRanks();
  life.OnLostRank(1, "rank 3 is gone");
  EXPECT_TRUE(life.failed());
  EXPECT_TRUE(life.awaits_cause());
  EXPECT_EQ(life.Reason(), "aggregator (node 1, w1): rank 3 is gone");
  life.OnExit(0, ExitStatus{1, 0}, "rank 3 is gone");
  life.OnExit(2, ExitStatus{1, 0}, "rank 3 is gone");
  EXPECT_TRUE(life.awaits_cause());
  EXPECT_EQ(life.Reason(), "aggregator (node 1, w1): rank 3 is gone");
  life.OnExit(1, ExitStatus{1, 0}, "ValueError: out of cheese");
  EXPECT_FALSE(life.awaits_cause());
  EXPECT_EQ(life.Reason(), "rank 3 (node 1, w1): exited with status 1: ValueError: out of cheese");
}

TEST(NodeLife, ALostRankThatEndsWellOrWasExplainedIsWaitedForNoMore) {
  NodeLife life = TwoRanks();
  life.OnLostRank(1, "rank 3 is gone");
  life.OnExit(1, kNodeLifeWell, "");
  EXPECT_FALSE(life.awaits_cause());
  EXPECT_EQ(life.Reason(), "aggregator (node 1, w1): rank 3 is gone");

  NodeLife other = TwoRanks();
  other.OnFailedLine(1, "loss is NaN at step 12");
  other.OnLostRank(1, "rank 3 is gone");
  EXPECT_FALSE(other.awaits_cause());
  EXPECT_EQ(other.Reason(), "rank 3 (node 1, w1): loss is NaN at step 12");
}

TEST(NodeLife, TakesADeathBySignalForTheCauseOfItsPeersComplaints) {
  NodeLife life = TwoRanks();
  life.OnLostRank(1, "rank 3 is gone");
  life.OnExit(2, ExitStatus{1, 0}, "");
  life.OnExit(1, ExitStatus{0, 11}, "");
  EXPECT_EQ(life.Reason(), "rank 3 (node 1, w1): killed by signal 11 (Segmentation fault)");
}

// Libraries may abort a process that exits because of an exception.
TEST(NodeLife, PrefersWhatTheChildSaidToASignalThatItThenDiesOf) {
  NodeLife life = TwoRanks();
  life.OnFailedLine(1, "ValueError: out of cheese (train.py:12)");
  life.OnExit(1, ExitStatus{0, 6}, "terminate called without an active exception");
  EXPECT_EQ(life.Reason(), "rank 3 (node 1, w1): ValueError: out of cheese (train.py:12)");
  // The line may be read last.
  NodeLife other = TwoRanks();
  other.OnExit(0, ExitStatus{0, 6}, "");
  EXPECT_EQ(other.Reason(), "rank 2 (node 1, w1): killed by signal 6 (Aborted)");
  other.OnFailedLine(0, "ValueError: out of cheese (train.py:12)");
  EXPECT_EQ(other.Reason(), "rank 2 (node 1, w1): ValueError: out of cheese (train.py:12)");
}

TEST(NodeLife, ARankThatASignalEndsIsADeathWhateverItsNodeSaysOfIt) {
  for (const int signal : {4, 7, 9, 11, 15}) {
    NodeLife life = TwoRanks();
    life.OnLostRank(1, "rank 3 is gone");
    EXPECT_FALSE(life.is_death()) << "it is not known yet";
    life.OnFailedLine(0, "the node was stopped: rank 3 is gone");
    life.OnExit(0, ExitStatus{1, 0}, "");
    life.OnExit(1, ExitStatus{0, signal}, "");
    EXPECT_TRUE(life.is_death()) << "signal " << signal;
  }
  NodeLife alone = TwoRanks();
  alone.OnExit(0, ExitStatus{0, 9}, "");
  EXPECT_TRUE(alone.is_death()) << "before the aggregator knows the rank";
}

TEST(NodeLife, AnAggregatorThatASignalEndsIsADeathAlthoughItsRanksComplain) {
  NodeLife life = TwoRanks();
  life.OnFailedLine(0, "the aggregator is gone");
  life.OnFailedLine(1, "the aggregator is gone");
  EXPECT_FALSE(life.is_death());
  life.OnExit(2, ExitStatus{0, 9}, "");
  EXPECT_TRUE(life.is_death());
  // Also if ranks are killed with it.
  NodeLife all = TwoRanks();
  all.OnExit(0, ExitStatus{0, 9}, "");
  all.OnFailedLine(1, "the aggregator is gone");
  all.OnExit(2, ExitStatus{0, 9}, "");
  EXPECT_TRUE(all.is_death());
}

TEST(NodeLife, ErrorsAreNoDeath) {
  NodeLife said = TwoRanks(), exited = TwoRanks(), aborted = TwoRanks(), lost = TwoRanks();
  said.OnFailedLine(2, "rank 2's gradient is NaN");
  EXPECT_FALSE(said.is_death());
  exited.OnLostRank(1, "rank 3 is gone");
  exited.OnExit(1, ExitStatus{1, 0}, "ValueError");
  EXPECT_FALSE(exited.is_death());
  aborted.OnExit(1, ExitStatus{0, 6}, "terminate called after throwing an instance of 'int'");
  EXPECT_FALSE(aborted.is_death()) << "an exception, or what a program asserts";
  lost.OnLostRank(1, "rank 3 is gone");
  lost.OnExit(1, kNodeLifeWell, "");
  EXPECT_FALSE(lost.is_death());
}

TEST(NodeLife, ASignalAfterARankHasSaidWhyItFailsIsNoDeath) {
  // The aggregator has lost the rank that failed, and not the one that crashed as all ended.
  NodeLife life = TwoRanks();
  life.OnFailedLine(0, "loss is NaN at step 12");
  life.OnLostRank(0, "rank 2 is gone");
  life.OnExit(1, ExitStatus{0, 11}, "");
  EXPECT_FALSE(life.is_death());
  // Libraries may abort a process that exits because of an exception.
  NodeLife own = TwoRanks();
  own.OnFailedLine(1, "ValueError: out of cheese");
  own.OnLostRank(1, "rank 3 is gone");
  own.OnExit(1, ExitStatus{0, 11}, "");
  EXPECT_FALSE(own.is_death());
}

TEST(NodeLife, TrainingHasDivergedIfAProcessSaysSoAndNoneDied) {
  NodeLife life("w1", 1, 2, 2, true);
  life.OnFailedLine(0, "the node was stopped: chunk 3: NaN or infinity");
  EXPECT_FALSE(life.has_diverged()) << "the words do not count";
  life.OnFailedLine(2, "chunk 3: NaN or infinity", /*has_diverged=*/true);
  EXPECT_TRUE(life.has_diverged()) << "a rank that hears of it speaks first";
  life.OnExit(1, ExitStatus{.signal = SIGKILL}, "");
  EXPECT_FALSE(life.has_diverged()) << life.Reason();
}

TEST(NodeLife, KeepsTheFirstOfSeveralLines) {
  NodeLife life = TwoRanks();
  life.OnFailedLine(0, "data file is truncated");
  life.OnFailedLine(2, "rank 2 is gone");
  EXPECT_EQ(life.Reason(), "rank 2 (node 1, w1): data file is truncated");
}

TEST(NodeLife, NeedsNoAggregator) {
  NodeLife life("w0", 0, 0, 1, false);
  ASSERT_EQ(life.children(), 1);
  EXPECT_FALSE(life.only_aggregator_left());
  life.OnExit(0, kNodeLifeWell, "");
  EXPECT_TRUE(life.finished());
  EXPECT_FALSE(life.only_aggregator_left());
}

const absl::Time kStart = absl::FromUnixSeconds(1000);

proto::LogicalNode NodeWatchTwoRanks() {
  proto::LogicalNode node;
  node.set_node(1);
  node.set_first_rank(2);
  node.set_ranks(2);
  return node;
}

std::string AllRun(int) { return "running"; }

TEST(NodeWatch, NamesTheRanksOfANodeWhoseAggregatorHasSaidNothingYet) {
  NodeWatch watch(7, NodeWatchTwoRanks(), true, kStart);
  const auto state_of = [](int child) { return child == 2 ? std::string() : "running"; };
  const proto::NodeActivity now = watch.Now(state_of, kStart + absl::Seconds(3));
  EXPECT_EQ(now.job_id(), 7u);
  EXPECT_EQ(now.node(), 1u);
  EXPECT_EQ(now.phase(), "starting");
  EXPECT_EQ(now.silent_ms(), 3000);
  EXPECT_EQ(now.process_state(), "");
  ASSERT_EQ(now.ranks_size(), 2);
  EXPECT_EQ(now.ranks(1).rank(), 3u);
  EXPECT_EQ(now.ranks(1).process_state(), "running");
}

TEST(NodeWatch, AddsAgeAndProcessStatesToTheAggregatorsLastWord) {
  NodeWatch watch(7, NodeWatchTwoRanks(), true, kStart);
  proto::NodeActivity said;
  said.set_job_id(99);  // the aggregator does not decide which job its message is about
  said.set_phase("training");
  said.add_ranks()->set_clock(57);
  said.add_ranks()->set_idle_ms(400);
  said.add_shards()->set_address("tcp://h:1");
  watch.OnActivity(said, kStart + absl::Seconds(10));
  const auto state_of = [](int child) {
    return child == 2 ? "stopped by a signal" : child == 1 ? "gone" : "running";
  };
  const proto::NodeActivity now = watch.Now(state_of, kStart + absl::Milliseconds(10'250));
  EXPECT_EQ(now.job_id(), 7u);
  EXPECT_EQ(now.node(), 1u);
  EXPECT_EQ(now.phase(), "training");
  EXPECT_EQ(now.silent_ms(), 250);
  EXPECT_EQ(now.process_state(), "stopped by a signal");
  EXPECT_EQ(now.ranks(0).clock(), 57u);
  EXPECT_EQ(now.ranks(0).process_state(), "running");
  EXPECT_EQ(now.ranks(1).idle_ms(), 400);
  EXPECT_EQ(now.ranks(1).process_state(), "gone");
  EXPECT_EQ(now.shards(0).address(), "tcp://h:1");
}

TEST(NodeWatch, DropsAWordAboutOtherRanks) {
  NodeWatch watch(7, NodeWatchTwoRanks(), true, kStart);
  watch.OnActivity(proto::NodeActivity(), kStart + absl::Seconds(1));
  EXPECT_EQ(watch.Now(AllRun, kStart + absl::Seconds(2)).silent_ms(), 2000);
}

TEST(NodeWatch, KeepsTheNewestCountOfWhatTheAggregatorRefused) {
  NodeWatch watch(7, NodeWatchTwoRanks(), true, kStart);
  EXPECT_EQ(watch.refusals(), transport::Refusals());
  proto::NodeRefusals said;
  for (const uint64_t count : {3, 5}) {
    proto::Refusal* refusal = said.add_refusals();
    refusal->set_cause("broken seal");
    refusal->set_count(count);
    watch.OnRefusals(said);
    said.Clear();
  }
  EXPECT_EQ(watch.refusals(), (transport::Refusals{{"broken seal", 5}}));
  proto::NodeActivity activity;
  activity.set_refused(2);
  for (int rank = 0; rank < 2; ++rank) activity.add_ranks();
  watch.OnActivity(activity, kStart);
  EXPECT_EQ(watch.refusals(),
            (transport::Refusals{{"broken seal", 5}, {"no rank, on a node's socket", 2}}));
}

TEST(NodeWatch, HearsOfNoRefusalsWhereThereIsNoAggregator) {
  NodeWatch watch(7, NodeWatchTwoRanks(), false, kStart);
  proto::NodeRefusals said;
  said.add_refusals()->set_count(3);
  watch.OnRefusals(said);
  EXPECT_EQ(watch.refusals(), transport::Refusals());
}

TEST(NodeWatch, KnowsARankWithoutAnAggregatorByItsReports) {
  proto::LogicalNode node;
  node.set_ranks(1);
  NodeWatch watch(7, node, false, kStart);
  EXPECT_EQ(watch.Now(AllRun, kStart + absl::Seconds(2)).ranks(0).idle_ms(), 2000);
  watch.OnReady(kStart + absl::Seconds(3));
  proto::RankReport report;
  report.set_end_step(50);
  watch.OnReport(report, kStart + absl::Seconds(5));
  const proto::NodeActivity now = watch.Now(AllRun, kStart + absl::Seconds(6));
  EXPECT_EQ(now.phase(), "training");
  EXPECT_EQ(now.ranks(0).clock(), 50u);
  EXPECT_EQ(now.ranks(0).idle_ms(), 1000);
  EXPECT_EQ(now.silent_ms(), 0);
  EXPECT_EQ(now.process_state(), "");
}

}  // namespace

}  // namespace strata::worker
