#include "worker/agent/job_processes_core.h"

#include <signal.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/trace_log.h"
#include "gtest/gtest.h"

namespace strata::worker {

namespace {

constexpr ExitStatus kWell{};
constexpr int kAggregator = 2;

std::string TextOf(const proto::DaemonMessage& up) {
  if (up.has_node_ready()) return "ready";
  if (up.has_node_finished()) return "finished";
  if (up.has_node_failed()) return absl::StrCat("failed: ", up.node_failed().reason());
  if (up.has_rank_report()) return "report";
  if (up.has_link_measured()) return "measured";
  return IsTraceEnd(up.trace()) ? "trace end" : "trace";
}

std::string TextOf(const JobProcessesCore::Action& action) {
  using Core = JobProcessesCore;
  if (std::holds_alternative<Core::Claim>(action)) return "claim";
  if (std::holds_alternative<Core::StartChildren>(action)) return "start";
  if (const auto* up = std::get_if<Core::SendUp>(&action)) return TextOf(up->message);
  if (const auto* down = std::get_if<Core::SendDown>(&action)) {
    if (down->message.has_move_shard()) return "move";
    return down->message.has_run() ? "run" : "measure";
  }
  if (const auto* kill = std::get_if<Core::SignalChildren>(&action)) {
    return absl::StrCat("signal ", kill->signal);
  }
  return "gone";
}

// Node 0 of job 7 on daemon w1, with ranks 0 and 1.
class JobProcessesCoreTest : public testing::Test {
 protected:
  void SetUp() override {
    start_.mutable_record()->set_job_id(7);
    start_.mutable_record()->mutable_view()->add_nodes()->set_ranks(2);
    deadlines_.stop_grace = absl::Seconds(3);
    deadlines_.symptom_time = absl::Milliseconds(200);
    deadlines_.cause_time = absl::Seconds(2);
    deadlines_.end_deadline = absl::Seconds(30);
    deadlines_.final_metrics_deadline = absl::Seconds(2);
    deadlines_.claim_deadline = absl::Seconds(5);
  }

  void Create() { core_.emplace("w1", start_, "/runs/job-7", deadlines_, admit_, now_); }
  // Starts all children.
  void StartAll() {
    Create();
    core_->Start(now_);
    core_->OnClaimed(absl::OkStatus(), now_);
    ASSERT_EQ(Actions(), "claim, start");
    for (int i = 0; i < core_->life().children(); ++i) core_->OnStarted();
  }
  // Returns the core's actions, in order.
  std::string Actions() {
    return absl::StrJoin(core_->TakeActions(), ", ", [](std::string* out, const auto& action) {
      absl::StrAppend(out, TextOf(action));
    });
  }
  void Say(int child, const proto::ChildMessage& message) {
    core_->OnChildMessage(child, message.SerializeAsString(), now_);
  }
  void SayFailed(int child, const std::string& line) {
    proto::ChildMessage message;
    message.set_failed(line);
    Say(child, message);
  }
  void SayLost(uint32_t local_rank) {
    proto::ChildMessage message;
    message.mutable_lost()->set_local_rank(local_rank);
    message.mutable_lost()->set_text("gone");
    Say(kAggregator, message);
  }
  void SayFinalReport() {
    proto::ChildMessage message;
    message.mutable_report()->set_final(true);
    Say(0, message);
    ASSERT_EQ(Actions(), "report");
  }
  void Exit(int child, ExitStatus status = kWell) { core_->OnExit(child, status, "", now_); }
  void ExitAll() {
    for (int i = 0; i < core_->life().children(); ++i) Exit(i);
  }
  // Advances the time; checks that nothing is due before.
  void Pass(absl::Duration time) {
    core_->OnTime(now_ + time - absl::Milliseconds(1));
    ASSERT_EQ(Actions(), "");
    now_ += time;
    core_->OnTime(now_);
  }

  proto::StartNode start_;
  JobDeadlines deadlines_;
  JobProcessesCore::Admit admit_;
  absl::Time now_ = absl::UnixEpoch();
  std::optional<JobProcessesCore> core_;
};

TEST_F(JobProcessesCoreTest, FinishesWhenAllHaveEndedWell) {
  StartAll();
  Exit(0);
  Exit(1);
  EXPECT_EQ(Actions(), "");
  Exit(kAggregator);
  EXPECT_EQ(Actions(), "finished, gone");
  EXPECT_EQ(core_->due(), absl::InfiniteFuture());
}

TEST_F(JobProcessesCoreTest, WhatItSaysNamesTheProcessesThatItIsAboutAndTheEndTheSteps) {
  start_.mutable_record()->set_attempt(3);
  start_.set_incarnation(2);
  const auto said = [&] {
    for (const JobProcessesCore::Action& action : core_->TakeActions()) {
      if (const auto* up = std::get_if<JobProcessesCore::SendUp>(&action)) return up->message;
    }
    return proto::DaemonMessage();
  };
  StartAll();
  proto::ChildMessage message;
  message.mutable_ready();
  Say(kAggregator, message);
  EXPECT_EQ(said().node_ready().incarnation(), 2);
  message.mutable_report()->set_rank(0);
  Say(0, message);
  EXPECT_EQ(said().rank_report().attempt(), 3);
  message.mutable_activity()->set_steps_made(6);
  for (int rank = 0; rank < 2; ++rank) message.mutable_activity()->add_ranks()->set_clock(6);
  Say(kAggregator, message);
  ExitAll();
  EXPECT_EQ(said().node_finished().ShortDebugString(),
            "job_id: 7 attempt: 3 steps_made: 6 incarnation: 2");
  start_.set_node(4);
  Create();
  core_->Start(now_);
  EXPECT_EQ(said().node_failed().incarnation(), 2);
}

TEST_F(JobProcessesCoreTest, IsNotFinishedBeforeTheLastEndIsKnown) {
  StartAll();
  Exit(kAggregator);
  Exit(0);
  EXPECT_EQ(Actions(), "");
  Exit(1, ExitStatus{3, 0});
  EXPECT_EQ(Actions(), "");
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(Actions(), "failed: rank 1 (node 0, w1): exited with status 3, gone");
}

TEST_F(JobProcessesCoreTest, FailsANodeThatIsNotInTheView) {
  start_.set_node(4);
  Create();
  core_->Start(now_);
  EXPECT_EQ(Actions(), "failed: node 4 (w1): node 4 is not in the job's view, gone");
}

TEST_F(JobProcessesCoreTest, ClaimsAgainUntilTheDeadline) {
  deadlines_.claim_deadline = absl::Milliseconds(100);
  Create();
  core_->Start(now_);
  EXPECT_EQ(Actions(), "claim");
  for (int i = 0; i < 2; ++i) {
    core_->OnClaimed(absl::UnavailableError("in use"), now_);
    Pass(absl::Milliseconds(50));
    EXPECT_EQ(Actions(), "claim");
  }
  core_->OnClaimed(absl::UnavailableError("in use"), now_);
  EXPECT_EQ(Actions(), "failed: node 0 (w1): in use, gone");
}

TEST_F(JobProcessesCoreTest, ClaimsNotAgainOnceStopped) {
  Create();
  core_->Start(now_);
  core_->OnClaimed(absl::UnavailableError("in use"), now_);
  core_->Stop(now_);
  EXPECT_EQ(Actions(), "claim, gone");
  EXPECT_EQ(core_->due(), absl::InfiniteFuture());
}

TEST_F(JobProcessesCoreTest, ClaimsNotAgainWhatCannotBeHad) {
  Create();
  core_->Start(now_);
  core_->OnClaimed(absl::PermissionDeniedError("not ours"), now_);
  EXPECT_EQ(Actions(), "claim, failed: node 0 (w1): not ours, gone");
}

TEST_F(JobProcessesCoreTest, EndsTheChildrenThatWereStartedWhereOneCannotBe) {
  Create();
  core_->Start(now_);
  core_->OnClaimed(absl::OkStatus(), now_);
  core_->OnStarted();
  core_->OnStartFailed(absl::NotFoundError("no program"), now_);
  EXPECT_EQ(Actions(), "claim, start, failed: node 0 (w1): no program, signal 15");
  Exit(kAggregator, ExitStatus{0, SIGTERM});
  EXPECT_EQ(Actions(), "gone");
}

TEST_F(JobProcessesCoreTest, CollectsSymptomsFromTheFirstOne) {
  StartAll();
  Exit(0, ExitStatus{1, 0});
  now_ += absl::Milliseconds(150);
  SayFailed(1, "loss is\nNaN");
  EXPECT_EQ(Actions(), "");
  Pass(absl::Milliseconds(50));
  EXPECT_EQ(Actions(), "failed: rank 1 (node 0, w1): loss is NaN, signal 15");
}

TEST_F(JobProcessesCoreTest, WaitsForTheEndOfALostRank) {
  StartAll();
  SayLost(1);
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(Actions(), "");
  Exit(1, ExitStatus{3, 0});
  EXPECT_EQ(Actions(), "failed: rank 1 (node 0, w1): exited with status 3, signal 15");
}

TEST_F(JobProcessesCoreTest, WaitsForTheEndOfALostRankOnlySoLong) {
  StartAll();
  SayLost(1);
  Pass(absl::Milliseconds(200));
  Pass(absl::Seconds(2));
  EXPECT_EQ(Actions(), "failed: aggregator (node 0, w1): gone, signal 15");
}

TEST_F(JobProcessesCoreTest, ALostRankIsTheAggregatorsToSay) {
  StartAll();
  proto::ChildMessage message;
  message.mutable_lost()->set_text("gone");
  Say(0, message);
  EXPECT_EQ(core_->due(), absl::InfiniteFuture());
}

TEST_F(JobProcessesCoreTest, KillsWhatIgnoresSigtermAndReportsOnce) {
  StartAll();
  core_->Fail("told to", now_);
  core_->Fail("again", now_);
  EXPECT_EQ(Actions(), "failed: told to, signal 15");
  Pass(absl::Seconds(3));
  EXPECT_EQ(Actions(), "signal 9");
  Pass(absl::Seconds(3));
  EXPECT_EQ(Actions(), "signal 9") << "a keeper may have been stopped";
  SayFailed(0, "late");
  ExitAll();
  EXPECT_EQ(Actions(), "gone");
  EXPECT_EQ(core_->due(), absl::InfiniteFuture());
}

TEST_F(JobProcessesCoreTest, StopsWithoutAWordButATracesEnd) {
  start_.mutable_record()->mutable_job()->mutable_trace()->set_steps(5);
  StartAll();
  core_->Stop(now_);
  EXPECT_EQ(Actions(), "signal 15");
  proto::ChildMessage message;
  message.mutable_report();
  Say(0, message);
  EXPECT_EQ(Actions(), "");
  message.mutable_trace();
  Say(0, message);
  EXPECT_EQ(Actions(), "trace");
  ExitAll();
  EXPECT_EQ(Actions(), "trace end, gone");
}

TEST_F(JobProcessesCoreTest, FailsSoonAfterARankThatHasEndedWithoutJoining) {
  StartAll();
  Exit(1);
  Pass(absl::Seconds(2));
  EXPECT_EQ(Actions(), "");
  Pass(absl::Seconds(1));
  EXPECT_EQ(Actions(),
            "failed: rank 1 (node 0, w1): ended without having joined the job, signal 15");
}

TEST_F(JobProcessesCoreTest, SaysOfAScriptWhichCallsItLacks) {
  proto::Program* const program = start_.mutable_record()->mutable_job()->mutable_program();
  program->set_path("/opt/python3.11");
  program->add_args("train");
  StartAll();
  Exit(0);
  Pass(absl::Seconds(3));
  EXPECT_EQ(Actions(),
            "failed: rank 0 (node 0, w1): ended without calling DistributedOptimizer or Session, "
            "so it has not joined the job, signal 15");
}

TEST_F(JobProcessesCoreTest, FailsWhenTheAggregatorOutlivesItsRanks) {
  StartAll();
  proto::ChildMessage message;
  message.mutable_ready();
  Say(kAggregator, message);
  EXPECT_EQ(Actions(), "ready");
  Exit(0);
  Exit(1);
  Pass(absl::Seconds(30));
  EXPECT_EQ(Actions(),
            "failed: aggregator (node 0, w1): did not end after its ranks had, signal 15");
}

TEST_F(JobProcessesCoreTest, WaitsForTheFinalMetrics) {
  StartAll();
  SayFinalReport();
  ExitAll();
  EXPECT_EQ(Actions(), "");
  core_->OnFinalMetrics();
  EXPECT_EQ(Actions(), "finished, gone");
}

TEST_F(JobProcessesCoreTest, WaitsForTheFinalMetricsOnlySoLong) {
  StartAll();
  SayFinalReport();
  ExitAll();
  Pass(absl::Seconds(2));
  EXPECT_EQ(Actions(), "finished, gone");
}

TEST_F(JobProcessesCoreTest, DoesNotWaitForFinalMetricsThatAreThereOrAnotherNodes) {
  StartAll();
  SayFinalReport();
  core_->OnFinalMetrics();
  ExitAll();
  EXPECT_EQ(Actions(), "finished, gone");

  start_.mutable_record()->mutable_view()->mutable_nodes(0)->set_first_rank(2);
  StartAll();
  SayFinalReport();
  ExitAll();
  EXPECT_EQ(Actions(), "finished, gone");
}

TEST_F(JobProcessesCoreTest, FailsWhereMetricsCannotBeWritten) {
  StartAll();
  core_->OnMetricsFailed(absl::ResourceExhaustedError("disk full"), now_);
  EXPECT_EQ(Actions(), "failed: node 0 (w1): disk full, signal 15");
}

TEST_F(JobProcessesCoreTest, SaysAgainThatItIsReadyOnlyWhileTheOutcomeIsOpen) {
  StartAll();
  core_->RepeatReady();
  EXPECT_EQ(Actions(), "");
  proto::ChildMessage message;
  message.mutable_ready();
  Say(kAggregator, message);
  core_->RepeatReady();
  EXPECT_EQ(Actions(), "ready, ready");
  core_->Stop(now_);
  core_->RepeatReady();
  EXPECT_EQ(Actions(), "signal 15");
}

TEST_F(JobProcessesCoreTest, IsNotReadyWhereItIsNotAdmitted) {
  admit_ = [](const proto::Job&, const proto::Layout&, const proto::Placement&) {
    return absl::ResourceExhaustedError("too big");
  };
  StartAll();
  proto::ChildMessage message;
  message.mutable_ready();
  Say(kAggregator, message);
  EXPECT_EQ(Actions(), "failed: node 0 (w1): too big, signal 15");
}

TEST_F(JobProcessesCoreTest, AsksForMemoryAgainWithTheOptimizerThatTheProgramHasNamed) {
  start_.mutable_record()->mutable_job()->mutable_optimizer()->mutable_from_program();
  std::vector<proto::Optimizer::KindCase> asked;
  admit_ = [&](const proto::Job& job, const proto::Layout&, const proto::Placement&) {
    asked.push_back(job.optimizer().kind_case());
    return absl::OkStatus();
  };
  StartAll();
  proto::ChildMessage message;
  message.mutable_ready();
  Say(kAggregator, message);
  proto::RunNode run;
  run.mutable_record()->mutable_job()->mutable_optimizer()->mutable_adam();
  core_->Run(run, now_);
  EXPECT_EQ(asked, (std::vector{proto::Optimizer::kFromProgram, proto::Optimizer::kAdam}));
}

TEST_F(JobProcessesCoreTest, RunsAndMeasuresOnceAndTellsAgainWhatWasMeasured) {
  StartAll();
  core_->Measure({});
  core_->Measure({});
  EXPECT_EQ(Actions(), "measure");
  proto::ChildMessage message;
  message.mutable_measured();
  Say(kAggregator, message);
  core_->Measure({});
  EXPECT_EQ(Actions(), "measured, measured");
  core_->Run({}, now_);
  core_->Run({}, now_);
  EXPECT_EQ(Actions(), "run");
}

TEST_F(JobProcessesCoreTest, FailsWithTheNameOfTheChildThatCannotBeUnderstood) {
  StartAll();
  core_->OnChildMessage(1, "\xff", now_);
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(Actions(),
            "failed: rank 1 (node 0, w1): sent a message that is not a ChildMessage, signal 15");
}

TEST_F(JobProcessesCoreTest, FailsWithTheFieldOfAChildThatSaysMoreThanItsBound) {
  StartAll();
  proto::ChildMessage message;
  (*message.mutable_report()->mutable_values())[std::string(300, 'v')] = 1;
  Say(1, message);
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(Actions(),
            "failed: rank 1 (node 0, w1): sent too much: report.values[0].key has 300 bytes, at "
            "most 256 are possible, signal 15");
}

TEST_F(JobProcessesCoreTest, LastWordsThatAreTooLongAreShortened) {
  StartAll();
  proto::ChildMessage message;
  message.set_failed(std::string(40'000'000, 'x'));
  Say(1, message);
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(Actions(), absl::StrCat("failed: rank 1 (node 0, w1): ", std::string(4093, 'x'),
                                    "..., signal 15"));
}

// Tests of the messages that JobProcessesCore passes between children and the coordinator:
// checkpoints, refusals, changes of the job's nodes, and a lost rank that exits last.

constexpr int kRank = 0, kProcessesMessagesAggregator = 2;

// Node 0 of job 7 on daemon w1, with ranks 0 and 1, which run.
class JobProcessesMessagesTest : public testing::Test {
 protected:
  void SetUp() override {
    proto::StartNode start;
    start.set_incarnation(4);
    start.mutable_record()->set_job_id(7);
    start.mutable_record()->set_attempt(3);
    start.mutable_record()->mutable_view()->add_nodes()->set_ranks(2);
    core_.emplace("w1", start, "/runs/job-7", JobDeadlines(), nullptr, now_);
    core_->Start(now_);
    core_->OnClaimed(absl::OkStatus(), now_);
    for (int i = 0; i < core_->life().children(); ++i) core_->OnStarted();
    core_->TakeActions();
  }
  // Returns the resulting messages to the coordinator.
  std::vector<proto::DaemonMessage> Say(int child, const proto::ChildMessage& message) {
    core_->OnChildMessage(child, message.SerializeAsString(), now_);
    return Said();
  }
  std::vector<proto::DaemonMessage> Said() {
    std::vector<proto::DaemonMessage> said;
    for (const JobProcessesCore::Action& action : core_->TakeActions()) {
      const auto* up = std::get_if<JobProcessesCore::SendUp>(&action);
      if (up != nullptr) said.push_back(up->message);
    }
    return said;
  }
  // Returns the messages to the aggregator.
  std::vector<proto::AgentMessage> Told() {
    std::vector<proto::AgentMessage> told;
    for (const JobProcessesCore::Action& action : core_->TakeActions()) {
      const auto* down = std::get_if<JobProcessesCore::SendDown>(&action);
      if (down != nullptr) told.push_back(down->message);
    }
    return told;
  }
  std::vector<proto::DaemonMessage> Pass(absl::Duration time) {
    now_ += time;
    core_->OnTime(now_);
    return Said();
  }

  absl::Time now_ = absl::UnixEpoch();
  std::optional<JobProcessesCore> core_;
};

TEST_F(JobProcessesMessagesTest, PartsAreForwardedWithTheJobsIdAlsoAfterItHasFailed) {
  proto::ChildMessage message;
  proto::CheckpointPart* part = message.mutable_checkpoint();
  part->set_job_id(99);
  part->set_token(5);
  part->set_clock(40);
  part->set_node(0);
  part->mutable_object()->set_name("clock-40/node-0-7.0");
  proto::CheckpointPart expected = *part;
  expected.set_job_id(7);
  std::vector<proto::DaemonMessage> said = Say(kProcessesMessagesAggregator, message);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].checkpoint_part().SerializeAsString(), expected.SerializeAsString());

  core_->Fail("told to", now_);
  EXPECT_TRUE(Said().at(0).has_node_failed());
  said = Say(kProcessesMessagesAggregator, message);
  ASSERT_EQ(said.size(), 1u) << "it is in the store";
  EXPECT_EQ(said[0].checkpoint_part().SerializeAsString(), expected.SerializeAsString());

  part->set_rank(1);
  said = Say(1, message);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].checkpoint_part().job_id(), 7u);
  EXPECT_EQ(said[0].checkpoint_part().rank(), 1u);
}

TEST_F(JobProcessesMessagesTest, DamageThatAChildFindsMakesTheFailureOne) {
  proto::ChildMessage message;
  message.set_damaged("/c/clock-40/node-0-7.0: checksum\nis another one");
  EXPECT_TRUE(Say(kProcessesMessagesAggregator, message).empty());
  const std::vector<proto::DaemonMessage> said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].node_failed().is_damaged());
  EXPECT_EQ(said[0].node_failed().reason(),
            "aggregator (node 0, w1): /c/clock-40/node-0-7.0: checksum is another one");
}

TEST_F(JobProcessesMessagesTest, OtherFailuresAreNoDamage) {
  proto::ChildMessage message;
  message.set_failed("loss is NaN");
  EXPECT_TRUE(Say(1, message).empty());
  const std::vector<proto::DaemonMessage> said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].node_failed().reason(), "rank 1 (node 0, w1): loss is NaN");
  EXPECT_FALSE(said[0].node_failed().is_damaged());
}

TEST_F(JobProcessesMessagesTest, RefusalsAreTheAggregatorsAndNotARanks) {
  proto::ChildMessage message;
  proto::Refusal* refusal = message.mutable_refusals()->add_refusals();
  refusal->set_cause("wrong secret of a job");
  refusal->set_count(4);
  Say(kRank, message);
  EXPECT_EQ(core_->watch().refusals(), transport::Refusals());
  EXPECT_TRUE(Say(kProcessesMessagesAggregator, message).empty()) << "the heartbeat tells it";
  EXPECT_EQ(core_->watch().refusals(), (transport::Refusals{{"wrong secret of a job", 4}}));
}

TEST_F(JobProcessesMessagesTest, ChangesOfTheJobsNodesReachTheAggregatorOnceItRuns) {
  proto::AgentMessage propose, change, stop, form;
  propose.mutable_propose_view()->set_number(9);
  change.mutable_change_view()->set_number(9);
  change.mutable_change_view()->set_at_clock(40);
  change.mutable_change_view()->add_joined(2);
  stop.mutable_stop_ring()->set_number(10);
  form.mutable_form_ring()->set_clock(50);
  core_->Tell(propose);
  core_->Tell(change);
  core_->Tell(form);
  EXPECT_TRUE(Told().empty()) << "its record will have them";

  core_->Run({}, now_);
  const std::vector<proto::AgentMessage> words = {propose, change, propose, stop, form};
  for (const proto::AgentMessage& word : words) core_->Tell(word);
  const std::vector<proto::AgentMessage> told = Told();
  ASSERT_EQ(told.size(), 1 + words.size()) << "the run, and what is said again, too";
  EXPECT_TRUE(told[0].has_run());
  for (size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(told[i + 1].SerializeAsString(), words[i].SerializeAsString());
  }

  core_->Stop(now_);
  core_->TakeActions();
  for (const proto::AgentMessage& word : words) core_->Tell(word);
  EXPECT_TRUE(Told().empty());
}

TEST_F(JobProcessesMessagesTest, ANodeThatDoesNotRunYetSaysThatItsRingCannotGoOn) {
  proto::AgentMessage stop;
  stop.mutable_stop_ring()->set_number(10);
  core_->Tell(stop);
  const std::vector<proto::DaemonMessage> said = Said();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].ring_stopped().ShortDebugString(),
            "job_id: 7 attempt: 3 number: 10 incarnation: 4 error: \"node 0 (w1): does not train "
            "yet\"");
}

TEST_F(JobProcessesMessagesTest, HowFarAStoppedRingIsNamesTheProcessesThatSayIt) {
  proto::ChildMessage message;
  proto::RingStopped* stopped = message.mutable_ring_stopped();
  stopped->set_number(9);
  stopped->set_clock(40);
  stopped->set_from_clock(42);
  stopped->set_is_over(true);
  EXPECT_TRUE(Say(kRank, message).empty()) << "ranks do not exchange";
  const std::vector<proto::DaemonMessage> said = Say(kProcessesMessagesAggregator, message);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].ring_stopped().ShortDebugString(),
            "job_id: 7 attempt: 3 number: 9 clock: 40 from_clock: 42 is_over: true incarnation: 4");
  core_->Fail("told to", now_);
  EXPECT_TRUE(Said().at(0).has_node_failed());
  EXPECT_TRUE(Say(kProcessesMessagesAggregator, message).empty()) << "it is void";
}

TEST_F(JobProcessesMessagesTest, WhatTheNodeFailsWithSaysWhetherItDied) {
  core_->OnExit(1, ExitStatus{0, 9}, "", now_);
  std::vector<proto::DaemonMessage> said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].node_failed().reason(), "rank 1 (node 0, w1): killed by signal 9 (Killed)");
  EXPECT_TRUE(said[0].node_failed().is_death());

  SetUp();
  core_->OnExit(1, ExitStatus{1, 0}, "", now_);
  said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_FALSE(said[0].node_failed().is_death());

  SetUp();
  core_->Fail("worker w1 was stopped", now_, /*is_death=*/true);
  EXPECT_TRUE(Said().at(0).node_failed().is_death());
}

TEST_F(JobProcessesMessagesTest, WhatANodePromisesNamesTheProcessesThatPromise) {
  proto::ChildMessage message;
  proto::ViewPromised* promised = message.mutable_view_promised();
  promised->set_node(0);
  promised->set_number(9);
  promised->set_from_clock(40);
  EXPECT_TRUE(Say(kRank, message).empty()) << "ranks promise nothing";
  const std::vector<proto::DaemonMessage> said = Say(kProcessesMessagesAggregator, message);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].view_promised().ShortDebugString(),
            "job_id: 7 attempt: 3 number: 9 from_clock: 40 incarnation: 4");
  core_->Fail("told to", now_);
  EXPECT_TRUE(Said().at(0).has_node_failed());
  EXPECT_TRUE(Say(kProcessesMessagesAggregator, message).empty()) << "it is void";
}

TEST_F(JobProcessesMessagesTest, ALostRankThatIsTheLastToEndIsTheReasonOnce) {
  proto::ChildMessage lost;
  lost.mutable_lost()->set_local_rank(1);
  EXPECT_TRUE(Say(kProcessesMessagesAggregator, lost).empty());
  core_->OnExit(kRank, ExitStatus{}, "", now_);
  core_->OnExit(kProcessesMessagesAggregator, ExitStatus{1, 0}, "", now_);
  EXPECT_TRUE(Pass(JobDeadlines().symptom_time).empty());
  core_->OnExit(1, ExitStatus{0, SIGKILL}, "", now_);
  const std::vector<proto::DaemonMessage> said = Said();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].node_failed().reason(), "rank 1 (node 0, w1): killed by signal 9 (Killed)");
}

}  // namespace

}  // namespace strata::worker
