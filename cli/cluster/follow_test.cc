#include "cli/cluster/follow.h"

#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/program/invocation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

}  // namespace
}  // namespace strata::cli
