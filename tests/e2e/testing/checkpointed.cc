#include "tests/e2e/testing/checkpointed.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {

proto::Job CheckpointedJob(const std::string& folder, int ranks_per_node, int steps,
                           const std::string& consistency) {
  proto::Job job = LenetJob("job", 4, ranks_per_node, steps, consistency);
  job.mutable_optimizer()->mutable_adam()->set_beta1(0.9F);
  job.mutable_schedule()->set_base_lr(0.002F);
  job.mutable_checkpoint()->set_dir(absl::StrCat(TestDir(), "/", folder));
  job.mutable_checkpoint()->set_every_steps(20);
  return job;
}

void SlowDown(proto::Job* job, uint32_t step_ms) {
  proto::Delay* delay = job->mutable_debug()->add_delays();
  delay->set_node(0);
  delay->set_delay_ms(step_ms);
}

void GoOnByItself(proto::Job* job) { job->mutable_restart()->set_attempts(50); }

proto::ResumeFrom FromFolder(const std::string& dir) {
  proto::ResumeFrom from;
  from.set_dir(dir);
  return from;
}

proto::ResumeFrom FromJob(uint32_t job) {
  proto::ResumeFrom from;
  from.set_job_id(job);
  return from;
}

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string Model(const proto::JobStatus& status) {
  return Content(status.run_dir() + "/model.safetensors");
}

void ExpectWindows(const proto::JobStatus& status, uint64_t steps, bool in_step) {
  uint64_t last = 0;
  for (const auto& line : Metrics(status.run_dir())) {
    const uint64_t step = line["step"].get<uint64_t>();
    // A measurement of a window whose line was already written when the job failed has a line of
    // its own.
    if (!line.contains("samples")) {
      EXPECT_EQ(step, last) << line;
      EXPECT_TRUE(line.contains("test_accuracy")) << line;
      continue;
    }
    EXPECT_EQ(step, std::min({last / 10 * 10 + 10, last / 32 * 32 + 32, steps})) << line;
    EXPECT_GE(line["samples"].get<uint64_t>(), step * 64) << line;
    if (in_step) {
      EXPECT_EQ(line["samples"].get<uint64_t>(), step * 64) << line;
    }
    last = step;
  }
  EXPECT_EQ(last, steps);
}

void Checkpointed::Start(const Cluster::Options& options) {
  cluster_ = std::make_unique<Cluster>(options);
  ASSERT_EQ(cluster_->Start(), absl::OkStatus());
}

JobId Checkpointed::Submit(const proto::Job& job, const proto::ResumeFrom& from) {
  const absl::StatusOr<JobId> id = cluster_->client().Submit(job, from);
  EXPECT_TRUE(id.ok()) << id.status();
  return id.value_or(JobId());
}

proto::JobStatus Checkpointed::Run(const proto::Job& job, const proto::ResumeFrom& from) {
  const proto::JobStatus status = cluster_->WaitForEnd(Submit(job, from));
  EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
  return status;
}

std::string Checkpointed::Refusal(const proto::Job& job, const proto::ResumeFrom& from) {
  const absl::StatusOr<JobId> id = cluster_->client().Submit(job, from);
  EXPECT_FALSE(id.ok());
  return std::string(id.status().message());
}

std::string Checkpointed::Failure(const proto::Job& job, const proto::ResumeFrom& from) {
  const proto::JobStatus status = cluster_->WaitForEnd(Submit(job, from));
  EXPECT_EQ(status.state(), proto::FAILED) << status.ShortDebugString();
  EXPECT_THAT(status.reason(), testing::Not(testing::HasSubstr("\n")));
  return status.reason();
}

proto::JobStatus Checkpointed::AwaitCheckpoint(JobId job, uint64_t clock) {
  const proto::JobStatus status = cluster_->WaitFor(job, [&](const proto::JobStatus& status) {
    return control::HasEnded(status.state()) ||
           (status.state() == proto::RUNNING && status.checkpoints().complete() > 0 &&
            status.checkpoints().newest_step() >= clock);
  });
  EXPECT_EQ(status.state(), proto::RUNNING) << status.reason();
  return status;
}

void Checkpointed::CancelAfter(JobId job, uint64_t clock) {
  AwaitCheckpoint(job, clock);
  EXPECT_EQ(cluster_->client().Cancel(job), absl::OkStatus());
  EXPECT_TRUE(WaitUntil(
      [] { return ListProcesses("rank").empty() && ListProcesses("aggregator").empty(); }));
}

}  // namespace strata::tests
