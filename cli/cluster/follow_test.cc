#include "cli/cluster/follow.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/options/invocation.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"
#include "common/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/record.pb.h"

namespace strata::cli {

namespace {

using ::testing::HasSubstr;

// Knows one job, which has ended.
class FakeClient final : public control::CoordinatorClient {
 public:
  absl::StatusOr<JobId> Submit(const proto::Job&, const proto::ResumeFrom&) override {
    return JobId(3);
  }
  absl::Status Cancel(JobId) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<proto::JobStatus>> ListJobs() override {
    return std::vector<proto::JobStatus>{end};
  }
  absl::StatusOr<proto::JobStatus> GetJob(JobId) override { return end; }
  absl::StatusOr<proto::ListNodesReply> ListNodes() override { return proto::ListNodesReply(); }
  absl::StatusOr<proto::DrainReply> Drain(const proto::DrainRequest&) override {
    return proto::DrainReply();
  }
  absl::StatusOr<proto::JobStatus> Follow(
      JobId, const std::function<void(const proto::FollowEvent&)>&) override {
    return end;
  }
  absl::Status GetTrace(JobId, const std::function<void(const proto::TraceBatch&)>&) override {
    if (on_get_trace != nullptr) on_get_trace();
    return trace;
  }
  void StopFollowing() override {}

  proto::JobStatus end;
  absl::Status trace;
  std::function<void()> on_get_trace;
};

class FollowTest : public ::testing::Test {
 protected:
  FollowTest() {
    char path[] = "/tmp/strata-follow-XXXXXX";
    dir_ = mkdtemp(path);
    file_ = dir_ + "/t.json";
    client_.end.set_job_id(3);
    client_.end.set_name("lenet");
    client_.end.set_state(proto::FINISHED);
    client_.end.set_run_dir("/runs/3");
    client_.on_get_trace = [this] { said_before_trace_ = testing::internal::GetCapturedStdout(); };
  }
  ~FollowTest() override { std::filesystem::remove_all(dir_); }

  std::optional<int> Follow(const std::string& trace_command) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const std::optional<int> exit_status =
        FollowJob(&client_, JobId(3), /*json=*/false, file_, trace_command);
    errors_ = testing::internal::GetCapturedStderr();
    return exit_status;
  }

  FakeClient client_;
  std::string dir_, file_, errors_, said_before_trace_;
};

TEST_F(FollowTest, HowTheJobEndedIsSaidBeforeItsTraceIsWaitedFor) {
  EXPECT_EQ(Follow(""), kExitOk);
  EXPECT_THAT(said_before_trace_, HasSubstr("run directory: /runs/3\n"));
  EXPECT_TRUE(std::filesystem::exists(file_));
}

TEST_F(FollowTest, AJobThatHasEndedStandsForItsExitStatusThoughItsTraceIsNotWaitedFor) {
  client_.trace = absl::CancelledError("no longer followed");
  EXPECT_EQ(Follow("strata trace 3 t.json"), kExitOk);
  EXPECT_EQ(errors_, "strata: warning: the trace is not written: strata trace 3 t.json\n");
  client_.end.set_state(proto::FAILED);
  client_.end.set_reason("no data");
  EXPECT_EQ(Follow(""), kExitFailed);
  EXPECT_THAT(errors_, HasSubstr("no data"));
  EXPECT_TRUE(absl::EndsWith(errors_, "\nstrata: warning: the trace is not written\n")) << errors_;
}

TEST_F(FollowTest, ATraceThatCannotBeHadFailsTheCommand) {
  client_.trace = absl::UnavailableError("the line broke");
  EXPECT_EQ(Follow("strata trace 3 t.json"), kExitFailed);
  EXPECT_EQ(errors_, "strata: error: the trace is not written: the line broke\n");
}

TEST(Stopped, AJobThatWasStoppedSaysHowItGoesOn) {
  proto::JobStatus status;
  EXPECT_EQ(StoppedText(status), "");
  status.set_run_dir("/runs/3\n");
  EXPECT_EQ(StoppedText(status), "run directory: /runs/3\\n\n");
  status.set_run_dir("/runs/3");
  status.mutable_checkpoints()->set_resumed_dir("/data/first");
  status.mutable_checkpoints()->set_resumed_step(40);
  EXPECT_EQ(StoppedText(status),
            "run directory: /runs/3\n"
            "newest checkpoint: step 40 in /data/first; the same command with --resume /data/first "
            "goes on from there\n");
  status.mutable_job()->mutable_checkpoint()->set_dir("/data/c");
  status.mutable_checkpoints()->set_complete(2);
  status.mutable_checkpoints()->set_newest_step(60);
  EXPECT_EQ(StoppedText(status),
            "run directory: /runs/3\n"
            "newest checkpoint: step 60 in /data/c; the same command with --resume /data/c goes on "
            "from there\n");
}

TEST_F(FollowTest, TheNewestCheckpointOfAJobThatWasStoppedIsTheOneInItsFolder) {
  const auto store = FileStore::Open(dir_ + "/c");
  ASSERT_EQ(store.status(), absl::OkStatus());
  proto::JobRecord record;
  const auto complete = [&](uint64_t clock) {
    const Manifest manifest = {
        .job = 3, .job_name = "lenet", .clock = clock, .record = record.SerializeAsString()};
    ASSERT_EQ(Checkpoints(**store).Complete(manifest), absl::OkStatus());
  };
  complete(40);
  complete(60);
  proto::JobStatus status;
  UpdateNewestCheckpoint(&status);
  EXPECT_FALSE(status.has_checkpoints()) << "the job writes none";
  status.mutable_job()->mutable_checkpoint()->set_dir(dir_ + "/c");
  status.mutable_checkpoints()->set_complete(2);
  status.mutable_checkpoints()->set_newest_step(40);
  UpdateNewestCheckpoint(&status);
  EXPECT_EQ(status.checkpoints().newest_step(), 60u);
  EXPECT_THAT(StoppedText(status), HasSubstr("newest checkpoint: step 60 in " + dir_ + "/c; "));

  // Rounds of 4 steps.
  proto::Job& job = *record.mutable_job();
  job.mutable_optimizer()->mutable_mean();
  job.mutable_consistency()->mutable_lazy()->set_local_steps(4);
  complete(70);
  status.mutable_checkpoints()->clear_complete();
  UpdateNewestCheckpoint(&status);
  EXPECT_EQ(status.checkpoints().newest_step(), 280u);
  EXPECT_EQ(status.checkpoints().complete(), 1u) << "it has one of its own";

  for (const std::string& dir : {dir_ + "/of-another-host", std::string("s3://bucket/c")}) {
    status.mutable_job()->mutable_checkpoint()->set_dir(dir);
    UpdateNewestCheckpoint(&status);
    EXPECT_EQ(status.checkpoints().newest_step(), 280u);
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/of-another-host"));
}

class RankOutputTest : public testing::Test {
 protected:
  RankOutputTest()
      : dir_(testing::TempDir() + "/" +
             testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(dir_ + "/logs");
  }
  void Print(uint32_t rank, const std::string& text) {
    std::ofstream(absl::StrCat(dir_, "/logs/rank", rank, ".log"), std::ios::app) << text;
  }
  void Show(const std::string& lines) {
    const absl::MutexLock lock(&mutex_);
    shown_ += lines;
  }
  std::string ShownAfter(const std::string& last) {
    const absl::MutexLock lock(&mutex_);
    const auto ends = [&] { return shown_.ends_with(last); };
    mutex_.AwaitWithTimeout(absl::Condition(&ends), absl::Seconds(60));
    return shown_;
  }

  const std::string dir_;
  absl::Mutex mutex_;
  std::string shown_;
};

TEST_F(RankOutputTest, Rank0IsShownAsItPrintsAndItsLastLineInTheEnd) {
  RankOutput output;
  ASSERT_EQ(output.Open(ParseRankOutput("")), absl::OkStatus());
  output.Begin(dir_, 2, [this](const std::string& lines) { Show(lines); });
  Print(0, "one\n");
  Print(1, "not this\n");
  EXPECT_EQ(ShownAfter("one\n"), "one\n");
  Print(0, "two");
  output.End();
  EXPECT_EQ(shown_, "one\ntwo\n");
}

TEST_F(RankOutputTest, AllRanksBearTheirNumbers) {
  RankOutput output;
  ASSERT_EQ(output.Open(ParseRankOutput("all")), absl::OkStatus());
  Print(0, "a\n");
  Print(1, "b\nc\n");
  output.Begin(dir_, 2, [this](const std::string& lines) { Show(lines); });
  output.End();
  EXPECT_EQ(shown_, "[0] a\n[1] b\n[1] c\n");
}

TEST_F(RankOutputTest, AFileTakesWhatAllRanksPrint) {
  const std::string file = dir_ + "/all.log";
  {
    RankOutput output;
    ASSERT_EQ(output.Open(ParseRankOutput(file)), absl::OkStatus());
    Print(0, "a\n");
    output.Begin(dir_, 1, [this](const std::string& lines) { Show(lines); });
  }
  std::string text;
  std::getline(std::ifstream(file), text);
  EXPECT_EQ(text, "[0] a");
  EXPECT_EQ(shown_, "");
  RankOutput output;
  EXPECT_EQ(output.Open(ParseRankOutput("/nowhere/all.log")),
            absl::InvalidArgumentError("--log /nowhere/all.log: cannot be written"));
}

TEST_F(RankOutputTest, NothingIsShownWhereNothingIsWanted) {
  RankOutput output;
  ASSERT_EQ(output.Open(ParseRankOutput("none")), absl::OkStatus());
  Print(0, "a\n");
  output.Begin(dir_, 1, [this](const std::string& lines) { Show(lines); });
  output.End();
  EXPECT_EQ(shown_, "");
}

}  // namespace

}  // namespace strata::cli
