#include "server/coordinator/jobs/hang_watch.h"

#include "gtest/gtest.h"
#include "server/testing/wait_diagnosis_fixture.h"

namespace strata::server {
namespace {

// The job of DiagnosisTest has made 57 steps of a second each, and then stalls.
class HangWatchTest : public DiagnosisTest {
 protected:
  HangWatchTest() {
    scene_.hang_after = absl::Seconds(60);
    for (NodeScene& node : scene_.nodes) node.first_step = 0;
    for (int r = 0; r < 4; ++r) rank(r).set_cpu_ms(40'000);
  }

  // Makes all ranks take `steps` steps of `each`, the last of which ends at `end`.
  void Train(uint64_t steps, absl::Duration each, absl::Time end = kNow) {
    scene_.training_since = end - static_cast<int64_t>(steps) * each;
    for (uint64_t step = 0; step <= steps; ++step) {
      const absl::Time at = scene_.training_since + static_cast<int64_t>(step) * each;
      for (int r = 0; r < 4; ++r) rank(r).set_clock(step);
      SayAt(at);
      watch_.Observe(scene_, at);
    }
    SayAt(kNow);
  }
  // All processes report.
  void SayAt(absl::Time at) {
    for (NodeScene& node : scene_.nodes) node.heard_at = node.activity_at = at;
  }
  std::optional<HungNode> Find() {
    return watch_.Find(scene_, Diagnose(scene_, kNow), DiagnosisTiming(), kNow);
  }
  bool Hangs() { return Find().has_value(); }
  // All wait `seconds` for rank 0, which has published nothing of its step. Its process uses
  // `ms_per_s` milliseconds of CPU per second.
  void WaitForFirst(int seconds, uint64_t ms_per_s) {
    watch_ = HangWatch();
    Train(57, absl::Seconds(1), kNow - absl::Seconds(seconds));
    WaitAllBut(0, seconds);
    rank(0).set_published(0);
    for (int second = 1; second <= seconds; ++second) {
      const absl::Time at = kNow - absl::Seconds(seconds - second);
      rank(0).set_cpu_ms(rank(0).cpu_ms() + ms_per_s);
      SayAt(at);
      watch_.Observe(scene_, at);
    }
  }

  HangWatch watch_;
};

TEST_F(HangWatchTest, ANodeForWhichAllOthersWaitHangsAfterSoLongAndNotBefore) {
  Train(57, absl::Seconds(1));
  WaitAllBut(3, 59);
  EXPECT_FALSE(Hangs());
  WaitAllBut(3, 60);
  const std::optional<HungNode> hung = Find();
  ASSERT_TRUE(hung.has_value());
  EXPECT_EQ(hung->node, 1u);
  EXPECT_EQ(hung->idle, absl::Seconds(60));
  EXPECT_EQ(hung->culprit, "its rank 3 at step 57: computing (published 12 of 61 chunks)");
}

TEST_F(HangWatchTest, TenStepsAreWaitedForWhereTheyTakeLonger) {
  Train(57, absl::Seconds(7));
  WaitAllBut(3, 69);
  EXPECT_FALSE(Hangs());
  WaitAllBut(3, 70);
  EXPECT_TRUE(Hangs());
}

TEST_F(HangWatchTest, ZeroIsNever) {
  Train(57, absl::Seconds(1));
  scene_.hang_after = absl::ZeroDuration();
  WaitAllBut(3, 100'000);
  EXPECT_FALSE(Hangs());
}

TEST_F(HangWatchTest, AStoppedRankHangsThatHasPublishedNothingOfItsStep) {
  Train(57, absl::Seconds(1));
  WaitAllBut(3, 60);
  rank(3).set_published(0);
  rank(3).set_process_state("stopped by a signal");
  ASSERT_TRUE(Hangs());
  EXPECT_EQ(Find()->culprit, "its rank 3 at step 57: stopped by a signal");
  rank(3).set_published(12);
  EXPECT_TRUE(Hangs());
  rank(3).set_process_state("stopped by a debugger");
  EXPECT_FALSE(Hangs()) << "somebody looks at it";
}

TEST_F(HangWatchTest, WhoUsesItsCoresBeforeItHasPublishedAnythingMayMeasureAccuracy) {
  WaitForFirst(100, 900);
  EXPECT_FALSE(Hangs());
  rank(0).set_published(1);
  EXPECT_TRUE(Hangs()) << "in the midst of its step nothing is measured";
}

TEST_F(HangWatchTest, WhoUsesAHundredthOfACoreIsBusyAndWhoUsesLessIsNot) {
  WaitForFirst(100, 10);
  EXPECT_FALSE(Hangs());
  WaitForFirst(100, 9);
  EXPECT_TRUE(Hangs());
  WaitForFirst(59, 9);
  EXPECT_FALSE(Hangs());
  rank(0).set_cpu_ms(0);
  WaitForFirst(100, 0);
  EXPECT_FALSE(Hangs()) << "its worker does not say";
}

TEST_F(HangWatchTest, TheFirstStepMayTakeAsLongAsItDoes) {
  Train(0, absl::Seconds(1));
  scene_.training_since = kNow - absl::Hours(3);
  WaitAllBut(3, 10'000);
  for (int r = 0; r < 4; ++r) rank(r).set_clock(r == 3 ? 0 : 1);
  watch_.Observe(scene_, kNow);
  EXPECT_FALSE(Hangs());
}

TEST_F(HangWatchTest, AfterOneStepTenOfItAreWaitedFor) {
  Train(1, absl::Seconds(100));
  WaitAllBut(3, 999);
  for (int r = 0; r < 4; ++r) rank(r).set_clock(r == 3 ? 1 : 2);
  EXPECT_FALSE(Hangs());
  rank(3).set_idle_ms(1'000'000);
  EXPECT_TRUE(Hangs());
}

TEST_F(HangWatchTest, ProcessesThatWereBegunAgainHaveTwiceTheTimeOfTheJobsFirstStep) {
  scene_.training_since = kNow - absl::Seconds(106);
  for (const auto& [step, before] : {std::pair(0, 106), std::pair(1, 6), std::pair(57, 0)}) {
    for (int r = 0; r < 4; ++r) rank(r).set_clock(step);
    SayAt(kNow - absl::Seconds(before));
    watch_.Observe(scene_, kNow - absl::Seconds(before));
  }
  watch_.Observe(scene_, kNow);
  for (int step = 58; step < 61; ++step) {  // the median is a second
    for (int r = 0; r < 4; ++r) rank(r).set_clock(step);
    watch_.Observe(scene_, kNow + absl::Seconds(step - 57));
  }
  scene_.nodes[1].first_step = 57;
  WaitAllBut(3, 199);
  rank(3).set_clock(57);
  EXPECT_FALSE(Hangs());
  WaitAllBut(3, 200);
  EXPECT_TRUE(Hangs());
  scene_.nodes[1].first_step = 56;
  WaitAllBut(3, 60);
  EXPECT_TRUE(Hangs()) << "it has made one";
  scene_.nodes[1].first_step.reset();
  EXPECT_FALSE(Hangs()) << "it may be in its first";
}

TEST_F(HangWatchTest, WhereTheFirstStepWasNotSeenProcessesHaveTenTimesTheTime) {
  scene_.training_since = kNow - absl::Minutes(5);
  for (const int step : {55, 56, 57}) {
    for (int r = 0; r < 4; ++r) rank(r).set_clock(step);
    watch_.Observe(scene_, kNow - absl::Seconds(57 - step));
  }
  scene_.nodes[1].first_step = 57;
  WaitAllBut(3, 599);
  EXPECT_FALSE(Hangs());
  WaitAllBut(3, 600);
  EXPECT_TRUE(Hangs());
}

TEST_F(HangWatchTest, WhereAServerDoesNotAnswerNobodyHangs) {
  Train(57, absl::Seconds(1));
  WaitAllBut(3, 100);
  ASSERT_TRUE(Hangs());
  rank(3).set_clock(58);
  rank(3).set_waiting(true);
  shard().heard_at = shard().nodes_at = kNow - absl::Seconds(100);
  EXPECT_FALSE(Diagnose(scene_, kNow).empty());
  EXPECT_FALSE(Hangs()) << "all are idle for the server's sake";
  rank(3).set_waiting(false);
  EXPECT_EQ(Diagnose(scene_, kNow).size(), 2u);
  EXPECT_FALSE(Hangs());
  // The answer that it owes is to the node itself.
  *node(1).mutable_shards(0) = line(0);
  line(0).set_unanswered(0);
  EXPECT_EQ(Diagnose(scene_, kNow).size(), 2u);
  EXPECT_FALSE(Hangs());
}

TEST_F(HangWatchTest, WhereAnotherNodeMovesOrStandsStillTooNobodyHangs) {
  Train(57, absl::Seconds(1));
  WaitAllBut(3, 100);
  rank(0).set_waiting(false);
  rank(0).set_idle_ms(500);
  EXPECT_EQ(Diagnose(scene_, kNow).size(), 1u);
  EXPECT_FALSE(Hangs()) << "it computes";
  rank(0).set_idle_ms(100'000);
  EXPECT_FALSE(Hangs());
  rank(0).set_process_state("gone");
  EXPECT_TRUE(Hangs()) << "it has ended well";
}

TEST_F(HangWatchTest, OnceTheOthersHaveFinishedTheJobWaitsForIt) {
  Train(57, absl::Seconds(1));
  WaitAllBut(3, 100);
  scene_.nodes[0].finished = true;
  scene_.nodes[0].activity = nullptr;
  EXPECT_TRUE(Hangs());
}

TEST_F(HangWatchTest, ANodeOfWhichNothingIsKnownMayBeTheOneThatIsWaitedFor) {
  Train(57, absl::Seconds(1));
  WaitAllBut(3, 100);
  scene_.nodes[0].activity = nullptr;
  EXPECT_FALSE(Hangs());
}

TEST_F(HangWatchTest, WhileANodeIsReplacedAndBeforeTrainingAndAtItsEndNobodyHangs) {
  Train(57, absl::Seconds(1));
  WaitAllBut(3, 100);
  scene_.all_nodes_train = false;
  EXPECT_FALSE(Hangs());
  scene_.all_nodes_train = true;
  for (const char* phase : {"starting", "seeding", "finishing"}) {
    node(1).set_phase(phase);
    EXPECT_FALSE(Hangs()) << phase;
  }
  node(1).set_phase("training");
  EXPECT_TRUE(Hangs());
}

TEST_F(HangWatchTest, AnAggregatorThatIsSilentHangsUnlessItsDaemonIsSilentToo) {
  Train(57, absl::Seconds(1));
  WaitAllBut(0, 1);
  node(0).set_silent_ms(60'000);
  EXPECT_TRUE(Hangs());
  EXPECT_EQ(Find()->culprit, "its aggregator at step 57: silent, its process is running");
  node(0).set_silent_ms(59'999);
  EXPECT_FALSE(Hangs());
  node(0).set_silent_ms(60'000);
  node(0).set_process_state("gone");
  EXPECT_FALSE(Hangs()) << "its ranks end, too";
  node(0).set_process_state("running");
  WaitAllBut(0, 60);
  EXPECT_TRUE(Hangs());
  scene_.nodes[0].heard_at = kNow - absl::Seconds(3);
  EXPECT_EQ(Diagnose(scene_, kNow).size(), 1u);
  EXPECT_FALSE(Hangs());
}

TEST_F(HangWatchTest, WhatTheCoordinatorStoodStillForIsNoTimeOfAStep) {
  Train(1, absl::Seconds(1));
  watch_.Excuse(absl::Seconds(98), kNow + absl::Seconds(100));
  for (int r = 0; r < 4; ++r) rank(r).set_clock(2);
  SayAt(kNow + absl::Seconds(100));
  watch_.Observe(scene_, kNow + absl::Seconds(100));
  SayAt(kNow);
  WaitAllBut(3, 60);
  EXPECT_TRUE(Hangs());
}

constexpr uint64_t kFirst = 60;
const absl::Time kBegin = absl::FromUnixSeconds(1'000'000);

absl::Time After(double seconds) { return kBegin + absl::Seconds(seconds); }

class StepPaceTest : public ::testing::Test {
 protected:
  void See(uint64_t steps, double at) { pace_.Observe(kFirst, kBegin, steps, After(at)); }

  StepPace pace_;
};

TEST_F(StepPaceTest, BeforeAStepIsMadeNothingIsKnown) {
  EXPECT_EQ(pace_.Median(), std::nullopt);
  See(kFirst, 1);
  See(kFirst, 500);
  EXPECT_EQ(pace_.Median(), std::nullopt);
  EXPECT_EQ(pace_.first_step(), std::nullopt);
}

TEST_F(StepPaceTest, OfFewStepsTheFirstIsOneAndOfTwoTheLongerCounts) {
  See(kFirst, 1);
  See(kFirst + 1, 100);
  EXPECT_EQ(pace_.Median(), absl::Seconds(100));
  EXPECT_EQ(pace_.first_step(), absl::Seconds(100));
  See(kFirst + 2, 104);
  EXPECT_EQ(pace_.Median(), absl::Seconds(100));
  See(kFirst + 3, 110);
  EXPECT_EQ(pace_.Median(), absl::Seconds(6));
  EXPECT_EQ(pace_.first_step(), absl::Seconds(100));
}

TEST_F(StepPaceTest, StepsThatAreSeenTogetherShareTheTime) {
  See(kFirst, 0);
  See(kFirst + 1, 1);
  EXPECT_EQ(pace_.Median(), absl::Seconds(1));
  See(kFirst + 2, 3);
  See(kFirst + 5, 4.5);
  EXPECT_EQ(pace_.Median(), absl::Seconds(0.5)) << "three of five";
}

TEST_F(StepPaceTest, StepsThatAreMadeAgainAreNone) {
  See(kFirst, 0);
  See(kFirst + 10, 10);
  See(kFirst + 4, 50);
  See(kFirst + 10, 60);
  EXPECT_EQ(pace_.Median(), absl::Seconds(1));
  See(kFirst + 11, 62);
  EXPECT_EQ(pace_.Median(), absl::Seconds(1)) << "of ten of a second and one of 52";
}

TEST_F(StepPaceTest, TheNewestCount) {
  See(kFirst, 0);
  for (int step = 1; step <= 40; ++step) See(kFirst + step, 10 * step);
  for (int step = 1; step <= 16; ++step) See(kFirst + 40 + step, 400 + step);
  EXPECT_EQ(pace_.Median(), absl::Seconds(1)) << "16 of 31";
}

TEST_F(StepPaceTest, WhereStepsHadBeenMadeBeforeTheFirstIsNotKnown) {
  See(kFirst + 50, 11);
  EXPECT_EQ(pace_.Median(), absl::Seconds(11) / 50);
  See(kFirst + 101, 113);
  EXPECT_EQ(pace_.Median(), absl::Seconds(2)) << "51 of 101";
  EXPECT_EQ(pace_.first_step(), std::nullopt);
}

TEST_F(StepPaceTest, StepsOfAFastJobAreThereAtTheFirstLook) {
  See(kFirst + 20, 10);
  EXPECT_EQ(pace_.Median(), absl::Seconds(0.5));
  EXPECT_EQ(pace_.first_step(), absl::Seconds(10)) << "at most";
}

TEST_F(StepPaceTest, WhatTheCoordinatorStoodStillForIsNobodysTime) {
  See(kFirst, 0);
  pace_.Excuse(absl::Seconds(90), After(100));
  See(kFirst + 1, 110);
  EXPECT_EQ(pace_.Median(), absl::Seconds(20));
}

}  // namespace

}  // namespace strata::server
