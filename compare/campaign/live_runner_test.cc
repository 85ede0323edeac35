#include "compare/campaign/live_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/job/job.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A coordinator with one worker and one server whose jobs of one rank go as the test says.
class FakeCoordinator : public control::CoordinatorClient {
 public:
  struct State {
    std::vector<proto::Job> submitted;
    std::vector<std::string> went_on_from;  // folder of each job; empty: it began anew
    std::string refuses_to_go_on;           // why; empty: a job goes on from step 5
    bool goes_on_by_itself = false;         // of which nothing before step 5 is heard
    proto::CheckpointStatus checkpoints;    // of a job that has ended
    int looks = 0;                          // at one
    std::vector<uint32_t> cancelled;
    int missed_runs = 0;  // number of jobs whose first report is missed
    proto::JobState end = proto::FINISHED;
    std::string reason;
    bool server_alive = true;
    bool measures = false;
    absl::Status line;  // of Follow
    std::function<void()> while_following;
  };
  explicit FakeCoordinator(State* state) : state_(*state) {}

  absl::StatusOr<JobId> Submit(const proto::Job& job, const proto::ResumeFrom& from) override {
    state_.submitted.push_back(job);
    state_.went_on_from.push_back(from.dir());
    return JobId(static_cast<uint32_t>(state_.submitted.size()));
  }
  absl::Status Cancel(JobId job) override {
    state_.cancelled.push_back(job.value());
    return absl::OkStatus();
  }
  absl::StatusOr<proto::DrainReply> Drain(const proto::DrainRequest&) override {
    return absl::UnimplementedError("not here");
  }
  absl::StatusOr<proto::ListNodesReply> ListNodes() override {
    proto::ListNodesReply nodes;
    for (const char* name : {"w0", "s0"}) {
      proto::DaemonStatus* daemon = nodes.add_daemons();
      daemon->set_name(name);
      daemon->set_role(name[0] == 'w' ? proto::WORKER : proto::SERVER);
      daemon->set_slots(1);
      daemon->set_alive(name[0] == 'w' || state_.server_alive);
    }
    return nodes;
  }
  absl::StatusOr<proto::JobStatus> Follow(
      JobId job, const std::function<void(const proto::FollowEvent&)>& on_event) override {
    proto::FollowEvent event;
    proto::JobStatus& status = *event.mutable_status();
    status.set_job_id(job.value());
    status.set_state(proto::RUNNING);
    status.mutable_progress()->set_step(5);
    status.mutable_progress()->set_total_steps(20);
    on_event(event);
    if (state_.while_following != nullptr) state_.while_following();
    if (stopped_) return absl::CancelledError("no longer followed");
    if (!state_.line.ok()) return state_.line;
    *status.mutable_job() = state_.submitted.back();
    status.mutable_progress()->set_step(20);
    const bool goes_on = !state_.went_on_from.back().empty() || state_.goes_on_by_itself;
    if (goes_on && !state_.refuses_to_go_on.empty()) {
      status.set_state(proto::FAILED);
      status.set_reason(state_.refuses_to_go_on);
      *status.mutable_checkpoints() = state_.checkpoints;
      return status;
    }
    const bool misses = static_cast<int>(state_.submitted.size()) <= state_.missed_runs;
    if (goes_on) ReportSteps(5, 5, on_event);
    for (uint64_t first : {goes_on ? 5 : 0, 10}) {
      if (first < 10 && misses) continue;
      ReportSteps(first, first < 10 ? 10 : 20, on_event);
    }
    if (state_.measures) {
      proto::FollowEvent measured;
      measured.mutable_report()->set_first_step(10);
      measured.mutable_report()->set_end_step(10);
      measured.mutable_report()->set_test_accuracy(0.5);
      on_event(measured);
      on_event(event);  // a status without changes
    }
    status.set_state(state_.end);
    status.set_reason(state_.reason);
    *status.mutable_checkpoints() = state_.checkpoints;
    status.add_nodes()->set_daemon("w0");
    status.mutable_nodes(0)->set_ranks(1);
    status.add_shards()->set_daemon("s0");
    return status;
  }
  void StopFollowing() override { stopped_ = true; }

  absl::StatusOr<std::vector<proto::JobStatus>> ListJobs() override { return NotAsked(); }
  // Its checkpoint of step 20 is complete when it is looked at for the third time.
  absl::StatusOr<proto::JobStatus> GetJob(JobId job) override {
    proto::JobStatus status;
    status.set_job_id(job.value());
    *status.mutable_checkpoints() = state_.checkpoints;
    if (++state_.looks == 3) state_.checkpoints.clear_writing_step();
    return status;
  }
  absl::Status GetTrace(JobId, const std::function<void(const proto::TraceBatch&)>&) override {
    return NotAsked();
  }

 private:
  static void ReportSteps(uint64_t first, uint64_t end,
                          const std::function<void(const proto::FollowEvent&)>& on_event) {
    proto::FollowEvent reported;
    proto::RankReport& report = *reported.mutable_report();
    report.set_first_step(first);
    report.set_end_step(end);
    report.set_samples(8 * (end - first));
    report.set_trained_s(static_cast<double>(end - first));
    report.set_final(end == 20);
    on_event(reported);
  }
  static absl::Status NotAsked() { return absl::UnimplementedError("not asked for"); }

  State& state_;
  bool stopped_ = false;
};

RunPlan PlanOf(const std::string& more = "") {
  auto job =
      ParseJob("name: 'tiny' model { zoo: 'mlp' } data { synthetic {} } seed: 3 " + more, "tiny");
  EXPECT_TRUE(job.ok()) << job.status();
  FillDefaults(&*job);
  return {"lazy:ssp(3)", *job};
}

class LiveRunnerTest : public ::testing::Test {
 protected:
  LiveRunnerTest() { Make({.cluster = "one of each", .jobs_dir = "/out/jobs"}); }

  void Make(LiveRunner::Options options) {
    runner_ = std::make_unique<LiveRunner>(options, std::make_unique<FakeCoordinator>(&state_));
  }
  absl::StatusOr<proto::RunRecord> Run(const RunPlan& plan = PlanOf()) {
    return runner_->Run(plan, [this](const RunProgress& progress) { progress_ = progress; });
  }

  FakeCoordinator::State state_;
  std::unique_ptr<LiveRunner> runner_;
  RunProgress progress_;
};

TEST_F(LiveRunnerTest, AJobIsRunWithADirectoryOfItsOwnAndRecordedAsPlanned) {
  const auto record = Run();
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_EQ(state_.submitted.size(), 1u);
  EXPECT_EQ(state_.submitted[0].run_dir(), "/out/jobs/lazy_ssp_3-seed3");
  EXPECT_EQ(record->job().run_dir(), "");
  EXPECT_EQ(record->cluster(), "one of each");
  EXPECT_EQ(record->samples(), 160u);
  EXPECT_EQ(progress_.done, 1.0 / 4);
  EXPECT_THAT(progress_.text, HasSubstr("step 5/20"));
}

TEST_F(LiveRunnerTest, ProgressSaysThatTrainingIsOverAndAccuracyIsMeasured) {
  state_.measures = true;
  EXPECT_EQ(Run()->measurements_size(), 1);
  EXPECT_EQ(progress_.text, "measures accuracy, 1 done");
  EXPECT_EQ(progress_.done, 1);
}

TEST_F(LiveRunnerTest, ARunWithMissedReportsIsMadeOnceMore) {
  state_.missed_runs = 1;
  EXPECT_EQ(Run()->samples(), 160u);
  EXPECT_EQ(state_.submitted.size(), 2u);
  state_.submitted.clear();
  state_.missed_runs = 2;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(state_.submitted.size(), 2u);
}

TEST_F(LiveRunnerTest, EachRunHasAFolderOfItsOwnForCheckpoints) {
  const RunPlan plan = PlanOf("checkpoint { dir: '/c' every_steps: 5 }");
  EXPECT_TRUE(Run(plan).ok());
  EXPECT_TRUE(Run(plan).ok());
  ASSERT_EQ(state_.submitted.size(), 2u);
  const std::string first = state_.submitted[0].checkpoint().dir();
  EXPECT_THAT(first, testing::StartsWith("/c/lazy_ssp_3-seed3-"));
  EXPECT_NE(state_.submitted[1].checkpoint().dir(), first);
}

// Returns a run of 20 steps that continues one of 10 steps at step 5, where its checkpoint is.
RunPlan PlanAfter(const std::string& checkpoint_dir, const std::string& failure = "") {
  proto::RunRecord earlier;
  earlier.set_steps(10);
  earlier.set_samples(80);
  earlier.set_trained_s(100);
  earlier.set_checkpoint_dir(checkpoint_dir);
  earlier.set_failure(failure);
  RunPlan plan = PlanOf();
  plan.job.mutable_data()->set_batch_per_rank(8);
  plan.chain.earlier = std::make_shared<proto::RunRecord>(earlier);
  return plan;
}

TEST_F(LiveRunnerTest, ARunThatGoesOnHasTheRecordOfAWholeOne) {
  const auto record = Run(PlanAfter("/c/short"));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_THAT(state_.went_on_from, ElementsAre("/c/short"));
  EXPECT_EQ(record->samples(), 160);
  EXPECT_EQ(record->resumed_step(), 5);
  EXPECT_EQ(record->resumed_samples(), 40);
  EXPECT_EQ(record->trained_s(), 50 + 10);
  EXPECT_EQ(record->began_anew(), "");
}

TEST_F(LiveRunnerTest, ARunThatCannotGoOnBeginsAnewAndItsRecordSaysWhy) {
  state_.refuses_to_go_on = "no complete checkpoint in /c/short";
  const auto refused = Run(PlanAfter("/c/short"));
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_THAT(state_.went_on_from, ElementsAre("/c/short", ""));
  EXPECT_EQ(refused->began_anew(), "no complete checkpoint in /c/short");
  EXPECT_EQ(refused->failure(), "");
  EXPECT_EQ(refused->resumed_step(), 0);
  EXPECT_EQ(refused->samples(), 160);
  EXPECT_EQ(refused->trained_s(), 10);
  state_.checkpoints.add_passed_over("that of step 5 is damaged");
  EXPECT_EQ(Run(PlanAfter("/c/short"))->began_anew(),
            "no complete checkpoint in /c/short; passed over: that of step 5 is damaged");
  state_.went_on_from.clear();
  EXPECT_EQ(Run(PlanAfter(""))->began_anew(), "the run before it kept no checkpoint");
  EXPECT_EQ(Run(PlanAfter("/c/short", "NaN"))->began_anew(), "the run before it has failed");
  EXPECT_THAT(state_.went_on_from, ElementsAre("", ""));
}

TEST_F(LiveRunnerTest, ARunIsOverOnceItsCheckpointIsWrittenWhereAnotherGoesOnFromIt) {
  RunPlan plan = PlanOf();
  plan.chain.checkpoint.set_dir("/c");
  plan.chain.checkpoint.set_every_steps(20);
  plan.chain.is_gone_on_from = true;
  state_.checkpoints.set_writing_step(20);
  const auto record = Run(plan);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(state_.looks, 4);
  EXPECT_THAT(record->checkpoint_dir(), testing::StartsWith("/c/lazy_ssp_3-seed3-"));
  EXPECT_EQ(state_.submitted[0].checkpoint().dir(), record->checkpoint_dir());
  EXPECT_FALSE(record->job().has_checkpoint());
  // Checkpoints that are not being written are not waited for.
  state_.looks = 0;
  EXPECT_TRUE(Run(plan).ok());
  EXPECT_EQ(state_.looks, 0);
}

// As after the death of a rank in a job with `restart`.
TEST_F(LiveRunnerTest, WhatAJobWentOnFromByItselfIsMissed) {
  state_.goes_on_by_itself = true;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(state_.submitted.size(), 2u);
}

TEST_F(LiveRunnerTest, AJobThatFailsByItselfIsARecordOneThatLostADaemonIsNot) {
  state_.end = proto::FAILED;
  state_.reason = "rank 0 (node 0, w0): loss is NaN at step 20";
  EXPECT_EQ(Run()->failure(), state_.reason);
  state_.reason = "server s0 is lost";
  state_.while_following = [this] { state_.server_alive = false; };
  EXPECT_EQ(Run().status(), absl::UnavailableError("server s0 is lost"));
}

TEST_F(LiveRunnerTest, AClusterThatIsGoneOrCancelsIsUnavailable) {
  state_.line = absl::NotFoundError("no job 1");
  EXPECT_EQ(Run().status(), absl::UnavailableError("no job 1"));
  state_.line = absl::OkStatus();
  state_.end = proto::CANCELLED;
  EXPECT_EQ(Run().status(), absl::UnavailableError("job 2 was cancelled"));
  // It would wait for ever.
  state_.server_alive = false;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(state_.submitted.size(), 2u);
}

TEST_F(LiveRunnerTest, StopCancelsTheJobAndLetsNoOtherBegin) {
  state_.while_following = [this] { runner_->Stop(); };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(state_.cancelled, ElementsAre(1));
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(state_.submitted.size(), 1u);
}

TEST_F(LiveRunnerTest, WhatCannotRunIsRefusedByMode) {
  EXPECT_EQ(runner_->Check(PlanOf()), absl::OkStatus());
  const absl::Status status = runner_->Check(PlanOf("ranks: 2"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mode lazy:ssp(3): ranks: 2 do not fit"));
}

}  // namespace
}  // namespace strata::compare
