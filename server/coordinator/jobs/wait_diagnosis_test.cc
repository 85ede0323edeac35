#include "server/coordinator/jobs/wait_diagnosis.h"

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/wait_diagnosis_fixture.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(DiagnosisTest, AJobThatMovesWaitsForNobody) { EXPECT_THAT(Texts(), IsEmpty()); }

TEST_F(DiagnosisTest, NamesTheStoppedRankAndNobodyWhoWaitsForIt) {
  WaitAllBut(3, 12);
  rank(3).set_process_state("stopped by a signal");
  const std::vector<proto::Wait> waits = Diagnose(scene_, kNow);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].text(), "node 1 (w2) rank 3 at step 57 for 12 s: stopped by a signal");
  EXPECT_EQ(waits[0].node(), 1u);
  EXPECT_EQ(waits[0].rank(), 3u);
  EXPECT_EQ(waits[0].daemon(), "w2");
  EXPECT_EQ(waits[0].clock(), 57u);
  EXPECT_EQ(waits[0].seconds(), 12);
  EXPECT_EQ(waits[0].doing(), "stopped by a signal");
}

TEST_F(DiagnosisTest, AStoppedRankIsNamedSoonerThanASlowOne) {
  WaitAllBut(3, 0);
  rank(3).set_idle_ms(999);
  rank(3).set_process_state("stopped by a signal");
  node(1).set_silent_ms(1500);  // its state since then is unknown
  EXPECT_THAT(Texts(), IsEmpty());
  rank(3).set_idle_ms(1000);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 at step 57 for 2 s: stopped by a signal"));
  for (const char* state :
       {"running", "waiting for the disk", "stopped by a debugger", "gone", ""}) {
    rank(3).set_process_state(state);
    EXPECT_THAT(Texts(), IsEmpty()) << state;
  }
}

TEST_F(DiagnosisTest, ARankThatComputesLongIsNamedWithWhatItHasPublished) {
  WaitAllBut(3, 14);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 at step 57 for 14 s: computing (published "
                                   "12 of 61 chunks)"));
  WaitAllBut(3, 1);
  EXPECT_THAT(Texts(), IsEmpty());
}

TEST_F(DiagnosisTest, ARankThatMayNotHaveMetTheOthersIsNotSaidToCompute) {
  scene_.ranks_meet = true;
  WaitAllBut(3, 14);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 at step 57 for 14 s: computing (published "
                                   "12 of 61 chunks)"));
  rank(3).set_clock(0);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 at step 0 for 14 s: computing (published "
                                   "12 of 61 chunks)"));
  rank(3).set_published(0);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 at step 0 for 14 s: meeting the others by "
                                   "NCCL, or in its first step"));
  scene_.ranks_meet = false;
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 at step 0 for 14 s: computing (published "
                                   "0 of 61 chunks)"));
}

TEST_F(DiagnosisTest, ARankThatWaitsForItsDiskSaysSo) {
  WaitAllBut(0, 4);
  rank(0).set_process_state("waiting for the disk");
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1) rank 0 at step 57 for 4 s: waiting for the disk"));
}

TEST_F(DiagnosisTest, TheAgeOfAWordCountsForHowLongButNotForWhether) {
  WaitAllBut(3, 3);
  node(1).set_silent_ms(500);
  scene_.nodes[1].activity_at = kNow - absl::Seconds(2);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 at step 57 for 5 s: computing (published "
                                   "12 of 61 chunks)"));
  WaitAllBut(3, 1);
  EXPECT_THAT(Texts(), IsEmpty());
}

TEST_F(DiagnosisTest, TheLongestWaitComesFirstAndTheirNumberIsBounded) {
  for (int r : {1, 2}) {
    rank(r).set_idle_ms(3000 * r);
    rank(r).set_process_state("stopped by a signal");
  }
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 2 at step 57 for 6 s: stopped by a signal",
                                   "node 0 (w1) rank 1 at step 57 for 3 s: stopped by a signal"));
  DiagnosisTiming timing;
  timing.waits_max = 1;
  EXPECT_EQ(Diagnose(scene_, kNow, timing).size(), 1u);
}

TEST_F(DiagnosisTest, AnAggregatorThatSaysNothingIsNamedWithItsProcessesState) {
  WaitAllBut(0, 11);
  node(0).set_silent_ms(11'200);
  node(0).set_process_state("stopped by a signal");
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1) aggregator at step 57 for 11 s: silent, its "
                                   "process is stopped by a signal"));
  // The kernel's view of its ranks is known all the same.
  rank(0).set_process_state("stopped by a signal");
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1) rank 0 at step 57 for 22 s: stopped by a signal",
                                   "node 0 (w1) aggregator at step 57 for 11 s: silent, its "
                                   "process is stopped by a signal"));
}

TEST_F(DiagnosisTest, AnAggregatorThatFellSilentAsTrainingBeganIsAtTheStepThatServersKnow) {
  WaitAllBut(0, 11);
  node(0).set_phase("starting");
  for (int r : {0, 1}) rank(r).set_clock(0);
  node(0).set_silent_ms(11'000);
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1) aggregator at step 57 for 11 s: silent, its "
                                   "process is running"));
}

TEST_F(DiagnosisTest, AServerThatIsSilentIsNamedAndNotTheNodesThatLoseTheirConnection) {
  for (int r = 0; r < 4; ++r) rank(r).set_waiting(true);
  shard().heard_at = shard().nodes_at = kNow - absl::Seconds(12);
  line(0).set_unanswered(4);
  line(0).set_oldest_clock(57);
  line(0).set_oldest_ms(12'000);
  EXPECT_THAT(Texts(), ElementsAre("server s1 (shard 0, tcp://10.0.0.2:7100) at step 57 for 12 s: "
                                   "silent, does not answer node 0's pushes"));
  line(1).set_connected(false);
  line(1).set_oldest_ms(9'000);
  EXPECT_THAT(Texts(), ElementsAre("server s1 (shard 0, tcp://10.0.0.2:7100) at step 57 for 12 s: "
                                   "silent, does not answer the pushes of 2 nodes"));
}

TEST_F(DiagnosisTest, ASilentServerThatNobodyWaitsForIsNotNamed) {
  shard().heard_at = kNow - absl::Seconds(4);
  EXPECT_THAT(Texts(), IsEmpty());
}

TEST_F(DiagnosisTest, AServerThatSpeaksButHasNotGotAPushIsNamed) {
  for (int r = 0; r < 4; ++r) rank(r).set_waiting(true);
  line(0).set_unanswered(1);
  line(0).set_oldest_clock(57);
  line(0).set_oldest_chunk(40);
  line(0).set_oldest_ms(12'000);
  EXPECT_THAT(Texts(), ElementsAre("server s1 (shard 0, tcp://10.0.0.2:7100) at step 57 for 12 s: "
                                   "does not answer node 0's pushes"));
  // Its report may be older than the push.
  shard().nodes_at = kNow - absl::Seconds(11);
  shard().least_since = kNow - absl::Seconds(4);
  EXPECT_THAT(Texts(), IsEmpty());
}

TEST_F(DiagnosisTest, AServerThatHasAllPushesOfAClockAndDoesNotAnswerIsNamed) {
  WaitAllBut(3, 12);
  rank(3).set_clock(58);
  rank(3).set_waiting(true);
  for (proto::NodeClock& clock : clocks_) clock.set_clock(58);
  EXPECT_THAT(Texts(), ElementsAre("server s1 (shard 0, tcp://10.0.0.2:7100) at step 57 for 12 s: "
                                   "does not answer node 0's pushes"));
  // Answers may be in flight.
  shard().least_since = kNow - absl::Seconds(1);
  EXPECT_THAT(Texts(), IsEmpty());
}

TEST_F(DiagnosisTest, PushesOfAllNodesThatDoNotReachTheServerAreFoundByTheirNumber) {
  // Each node waits for its most urgent chunk; the server sees each of them waiting for the other.
  for (int r = 0; r < 4; ++r) rank(r).set_waiting(true);
  for (int n : {0, 1}) {
    line(n).set_unanswered(4);
    line(n).set_oldest_clock(57);
    line(n).set_oldest_chunk(60);
    line(n).set_oldest_ms(7000);
    clocks_[n].set_unanswered(4);
  }
  EXPECT_THAT(Texts(), IsEmpty()) << "all four are there";
  clocks_[0].set_unanswered(1);
  clocks_[1].set_unanswered(3);
  EXPECT_THAT(Texts(), ElementsAre("server s1 (shard 0, tcp://10.0.0.2:7100) at step 57 for 7 s: "
                                   "does not answer the pushes of 2 nodes"));
  // A number that changes shows progress.
  lines_since_[1][0] = kNow - absl::Seconds(1);
  EXPECT_EQ(Diagnose(scene_, kNow)[0].doing(), "does not answer node 0's pushes");
  clocks_since_[0] = kNow - absl::Seconds(1);
  EXPECT_THAT(Texts(), IsEmpty());
}

TEST_F(DiagnosisTest, AServerMayWaitOnlyBeyondTheJobsStaleness) {
  WaitAllBut(3, 5);
  rank(3).set_idle_ms(0);
  EXPECT_THAT(Texts(), IsEmpty()) << "node 1 lags";
  scene_.staleness = 1;
  EXPECT_THAT(Texts(), ElementsAre("server s1 (shard 0, tcp://10.0.0.2:7100) at step 57 for 5 s: "
                                   "does not answer node 0's pushes"));
  scene_.staleness = std::nullopt;  // async: at once
  EXPECT_EQ(Texts().size(), 1u);
}

TEST_F(DiagnosisTest, ANodeThatCannotConnectIsNamedWithTheReason) {
  WaitAllBut(3, 8);
  rank(3).set_clock(58);
  rank(3).set_waiting(true);
  line(1).set_connected(false);
  line(1).set_oldest_ms(8'000);
  line(1).set_error("tcp://10.0.0.2:7100: connection refused");
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2): connecting to tcp://10.0.0.2:7100 for 8 s: "
                                   "connection refused"));
  EXPECT_EQ(Diagnose(scene_, kNow)[0].doing(),
            "connecting to tcp://10.0.0.2:7100: connection refused");
}

TEST_F(DiagnosisTest, RanksThatHaveNotCalledStartAreNamed) {
  scene_.phase = JobScene::Phase::kStarting;
  scene_.shards.clear();
  for (int r = 0; r < 4; ++r) {
    rank(r).set_idle_ms(40'000);
    rank(r).set_chunks(0);
    rank(r).set_clock(0);
  }
  for (int n : {0, 1}) {
    scene_.nodes[n].ready = false;
    node(n).set_phase("starting");
    node(n).clear_shards();
  }
  for (int r : {0, 1, 2}) rank(r).set_waiting(true);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 has not joined the job for 40 s"));
  rank(3).set_cpu_ms(9'900);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 has not joined the job for 40 s"));
  rank(3).set_cpu_ms(10'000);  // it imports its libraries
  EXPECT_THAT(Texts(), IsEmpty());
  rank(3).set_process_state("stopped by a signal");
  EXPECT_THAT(
      Texts(),
      ElementsAre("node 1 (w2) rank 3 has not joined the job for 40 s: stopped by a signal"));
  EXPECT_EQ(Diagnose(scene_, kNow)[0].rank(), 3u);
  rank(3).set_process_state("");
  rank(3).set_idle_ms(60'000);
  rank(3).set_cpu_ms(60'000);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 has not joined the job for 60 s"));
}

TEST_F(DiagnosisTest, ANodeOfWhichNothingIsKnownWhileTheJobStartsIsNamed) {
  scene_.phase = JobScene::Phase::kStarting;
  scene_.phase_since = kNow - absl::Seconds(5);
  scene_.nodes[1].ready = false;
  scene_.nodes[1].activity = nullptr;
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) for 5 s: has not started its ranks"));
  scene_.nodes[1].activity = &node(1);
  node(1).set_phase("starting");
  node(1).set_process_state("");
  node(1).set_silent_ms(4000);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) for 4 s: its processes have not started: the run "
                                   "directory is in use"));
}

TEST_F(DiagnosisTest, AServerThatDoesNotInstallTheJobIsNamed) {
  scene_.phase = JobScene::Phase::kInstalling;
  scene_.phase_since = kNow - absl::Seconds(7);
  for (int r = 0; r < 4; ++r) rank(r).set_waiting(true);
  shard().installed = false;
  EXPECT_THAT(Texts(), ElementsAre("server s1 for 7 s: installing the job"));
  shard().heard_at = kNow - absl::Seconds(4);
  EXPECT_THAT(Texts(), ElementsAre("server s1 for 7 s: silent"));
}

TEST_F(DiagnosisTest, ASilentWorkerDaemonIsNamedWhereItsNodeMayBeTheOneThatLags) {
  scene_.nodes[1].heard_at = scene_.nodes[1].activity_at = kNow - absl::Seconds(4);
  clocks_[0].set_clock(58);
  EXPECT_THAT(Texts(), IsEmpty()) << "the job moves";
  shard().least_since = kNow - absl::Seconds(4);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) at step 57 for 4 s: its worker daemon is silent"));
  clocks_[1].set_clock(59);
  EXPECT_THAT(Texts(), IsEmpty()) << "others lag";
}

TEST_F(DiagnosisTest, AnAggregatorIsNotToBlameForItsDaemonsSilence) {
  node(1).set_silent_ms(900);
  scene_.nodes[1].heard_at = scene_.nodes[1].activity_at = kNow - absl::Milliseconds(2900);
  EXPECT_THAT(Texts(), IsEmpty());
  scene_.nodes[1].heard_at = kNow;
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) aggregator at step 57 for 3 s: silent, its process "
                                   "is running"))
      << "the daemon speaks, and has nothing new of it";
}

TEST_F(DiagnosisTest, ARankThatIsKnownToHaveComeFurtherIsNotNamed) {
  rank(2).set_idle_ms(3000);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 2 at step 57 for 3 s: computing (published 12 "
                                   "of 61 chunks)"));
  scene_.nodes[1].reported_step = 58;
  EXPECT_THAT(Texts(), IsEmpty());
  scene_.nodes[1].reported_step = 0;
  node(1).set_phase("starting");
  EXPECT_THAT(Texts(), IsEmpty()) << "the job trains: it has called Start";
}

TEST_F(DiagnosisTest, WithoutAnAggregatorARankIsNamedWhenItsProcessDoesNotRun) {
  scene_.has_aggregators = false;
  scene_.shards.clear();
  scene_.nodes.pop_back();
  node(0).clear_shards();
  node(0).clear_process_state();
  node(0).mutable_ranks()->RemoveLast();
  rank(0).set_chunks(0);
  rank(0).set_clock(50);
  rank(0).set_idle_ms(30'000);
  EXPECT_THAT(Texts(), IsEmpty()) << "between two reports";
  rank(0).set_process_state("stopped by a signal");
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1) rank 0 at step 50 for 30 s: stopped by a signal"));
}

TEST_F(DiagnosisTest, ANodeThatEndsItsJobIsNotHeldForASlowOne) {
  node(0).set_phase("finishing");
  for (int r : {0, 1}) {
    rank(r).set_waiting(true);
    rank(r).set_idle_ms(20'000);
  }
  clocks_[0].set_retired(true);
  line(0).set_unanswered(4);  // CUT
  line(0).set_oldest_clock(100);
  line(0).set_oldest_ms(20'000);
  EXPECT_THAT(Texts(), IsEmpty()) << "node 1 has not retired";
  clocks_[1].set_retired(true);
  shard().least_since = kNow - absl::Seconds(3);
  EXPECT_THAT(Texts(), ElementsAre("server s1 (shard 0, tcp://10.0.0.2:7100) at step 100 for 20 s: "
                                   "does not answer node 0's last requests"));
}

TEST_F(DiagnosisTest, RanksThatFinishAfterTheirAggregatorHasEndedAreNamed) {
  node(0).set_phase("finishing");
  node(0).set_silent_ms(6000);
  node(0).set_process_state("gone");
  rank(0).set_process_state("gone");
  rank(1).set_clock(100);
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1) rank 1 at step 100 for 6 s: finishing"));
  rank(1).set_process_state("stopped by a signal");
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1) rank 1 at step 100 for 6 s: stopped by a signal"));
  scene_.nodes[0].finished = true;
  EXPECT_THAT(Texts(), IsEmpty());
}

TEST_F(DiagnosisTest, ANodeThatAQuorumGoesOnWithoutHoldsNobodyUp) {
  scene_.has_quorum = true;
  WaitAllBut(3, 12);
  rank(3).set_process_state("stopped by a signal");
  clocks_[0].set_clock(90);
  clocks_since_[0] = kNow - absl::Seconds(1);
  EXPECT_THAT(Texts(), IsEmpty());
  clocks_since_[0] = kNow - absl::Seconds(4);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) rank 3 at step 57 for 12 s: stopped by a signal"));
  scene_.has_quorum = false;
  clocks_since_[0] = kNow;
  EXPECT_EQ(Texts().size(), 1u) << "without a quorum everybody waits for it";
}

TEST_F(DiagnosisTest, WhereAQuorumStandsStillThoseWhoWaitForNothingAreNamed) {
  scene_.has_quorum = true;
  for (int r = 0; r < 4; ++r) rank(r).set_waiting(true);
  clocks_[0].set_unanswered(2);
  clocks_[0].set_clock(40);
  line(0).set_unanswered(2);
  line(0).set_oldest_clock(40);
  line(0).set_oldest_ms(11'000);
  shard().least_since = kNow - absl::Seconds(60);
  clocks_since_ = {kNow - absl::Seconds(11), kNow - absl::Seconds(30)};
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) at step 40 for 11 s: has not pushed chunk 40 to "
                                   "server s1 (shard 0)"));
}

TEST_F(DiagnosisTest, WhereNobodyTellsWhyTheNodeThatLagsIsNamed) {
  WaitAllBut(3, 9);
  rank(3).set_waiting(true);
  clocks_[0].set_clock(58);
  EXPECT_THAT(Texts(), IsEmpty());
  shard().least_since = kNow - absl::Seconds(11);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) at step 57 for 11 s: has not pushed chunk 40 to "
                                   "server s1 (shard 0)"));
}

TEST_F(DiagnosisTest, ARoundOfLocalStepsMayTakeLongUnlessSomebodyIsAheadOfIt) {
  scene_.has_local_steps = true;
  shard().least_since = kNow - absl::Seconds(60);
  EXPECT_THAT(Texts(), IsEmpty());
  clocks_[0].set_clock(73);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) at step 57 for 60 s: has not pushed chunk 40 to "
                                   "server s1 (shard 0)"));
}

TEST_F(DiagnosisTest, ServersThatHaveNotTakenAChangeOfTheNodesInAreNamed) {
  scene_.changing = {{.daemon = "s1", .heard_at = kNow},
                     {.daemon = "s2", .heard_at = kNow - absl::Seconds(4)}};
  EXPECT_THAT(Texts(), IsEmpty()) << "nobody was asked";
  scene_.changing_since = kNow - absl::Seconds(1);
  EXPECT_THAT(Texts(), IsEmpty()) << "it takes a moment";
  scene_.changing_since = kNow - absl::Seconds(12);
  EXPECT_THAT(Texts(),
              ElementsAre("server s1 for 12 s: has not taken in that the job's nodes change",
                          "server s2 for 12 s: silent, has not taken in that the job's nodes "
                          "change"));
}

// ---- all-reduce ----

TEST_F(DiagnosisTest, InAnAllReduceASilentWorkerDaemonHoldsEverybodyUp) {
  WaitAllBut(3, 0);
  scene_.shards.clear();
  scene_.nodes[1].reported_step = 57;
  scene_.nodes[1].heard_at = kNow - absl::Seconds(8);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) at step 57 for 8 s: its worker daemon is silent"));
}

TEST_F(DiagnosisTest, InAnAllReduceANodeThatCannotReachAnotherSaysWhere) {
  WaitAllBut(3, 0);
  scene_.shards.clear();
  line(0).set_address("tcp://10.0.0.3:40000");
  line(0).set_connected(false);
  line(0).set_oldest_ms(4000);
  line(0).set_error("connection refused");
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1): connecting to tcp://10.0.0.3:40000 for 4 s: "
                                   "connection refused"));
}

class StallLogTest : public ::testing::Test {
 protected:
  StallLogTest() {
    job_.set_job_id(3);
    job_.set_name("lenet");
  }
  static proto::Wait WaitOf(uint32_t rank, double seconds) {
    proto::Wait wait;
    wait.set_rank(rank);
    wait.set_seconds(seconds);
    wait.set_text(absl::StrFormat("node 0 (w1) rank %d at step 57 for %d s: computing", rank,
                                  static_cast<int>(seconds)));
    return wait;
  }
  std::vector<std::string> At(int second, const std::vector<proto::Wait>& waits) {
    return log_.OnWaits(job_, waits, absl::FromUnixSeconds(1000 + second));
  }

  proto::JobStatus job_;
  StallLog log_;
};

TEST_F(StallLogTest, AStallIsLoggedOnceAgainEveryMinuteAndWhenTheJobGoesOn) {
  std::vector<std::string> lines;
  for (int s = 1; s <= 75; ++s) {
    for (std::string& line : At(s, {WaitOf(3, s)})) lines.push_back(std::move(line));
  }
  EXPECT_THAT(
      lines, ElementsAre("job 3 (lenet) waits: node 0 (w1) rank 3 at step 57 for 10 s: computing",
                         "job 3 (lenet) waits: node 0 (w1) rank 3 at step 57 for 70 s: computing"));
  EXPECT_THAT(At(76, {}), ElementsAre("job 3 (lenet) goes on, after it had waited for 75 s"));
  EXPECT_THAT(At(77, {}), IsEmpty());
}

TEST_F(StallLogTest, ShortWaitsAreNotLogged) {
  for (int s = 0; s < 30; ++s) EXPECT_THAT(At(s, {WaitOf(3, 9.9)}), IsEmpty());
  EXPECT_THAT(At(30, {}), IsEmpty());
}

TEST_F(StallLogTest, EachCulpritIsNamedOnceAndTheEndIsToldWhenAllGoOn) {
  EXPECT_THAT(At(0, {WaitOf(3, 12), WaitOf(2, 11)}), SizeIs(2));
  EXPECT_THAT(At(1, {WaitOf(3, 13), WaitOf(2, 12)}), IsEmpty());
  EXPECT_THAT(At(2, {WaitOf(2, 13)}), IsEmpty());
  EXPECT_THAT(At(3, {}), ElementsAre("job 3 (lenet) goes on, after it had waited for 13 s"));
}

TEST_F(StallLogTest, AJobOfLongStepsDoesNotFillTheLog) {
  size_t lines = 0;
  for (int s = 0; s < 300; ++s) {
    std::vector<proto::Wait> waits;
    for (uint32_t r = 0; r < 16; ++r) waits.push_back(WaitOf(r, s % 15));
    lines += At(s, waits).size();
  }
  EXPECT_LE(lines, 5u * (4 + 1));
  EXPECT_GE(lines, 4u * (4 + 1));
}

}  // namespace

}  // namespace strata::server
