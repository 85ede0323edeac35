// Jobs keep checkpoints, and go on from them: by themselves after the death of any process, and by
// hand on another cluster; in sync with the bits of a job that nothing disturbed.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string Folder(const std::string& name) { return absl::StrCat(TestDir(), "/", name); }

// A checkpoint every 20 steps, to a folder of that name.
proto::Job KeptJob(const std::string& folder, int steps, const std::string& mode = "sync {}") {
  proto::Job job = LenetJob("kept", 4, 2, steps, mode);
  job.mutable_optimizer()->mutable_adam();
  job.mutable_checkpoint()->set_dir(Folder(folder));
  job.mutable_checkpoint()->set_every_steps(20);
  job.mutable_metrics()->set_every_steps(10);
  return job;
}

// The same, in no hurry.
proto::Job SlowJob(const std::string& folder, int steps, const std::string& mode = "sync {}") {
  proto::Job job = KeptJob(folder, steps, mode);
  proto::Delay* delay = job.mutable_debug()->add_delays();
  delay->set_node(0);
  delay->set_delay_ms(15);
  return job;
}

std::string ModelOf(const proto::JobStatus& status) {
  return ReadAll(fs::path(status.run_dir()) / "model.safetensors");
}

// The steps that windows of training end with.
std::vector<uint64_t> WindowsOf(const proto::JobStatus& status) {
  std::vector<uint64_t> steps;
  for (const auto& record : Metrics(status.run_dir())) {
    if (record.value("samples", 0) > 0) steps.push_back(record["step"]);
  }
  return steps;
}

fs::path CheckpointOf(const std::string& folder, uint64_t step) {
  return fs::path(Folder(folder)) / absl::StrFormat("clock-%020d", step);
}

fs::path AnObjectOf(const std::string& folder, uint64_t step) {
  for (const auto& entry : fs::directory_iterator(CheckpointOf(folder, step))) {
    if (entry.path().filename() != "manifest.json") return entry.path();
  }
  ADD_FAILURE() << folder << " has no object of step " << step;
  return {};
}

proto::ResumeFrom From(const std::string& folder) {
  proto::ResumeFrom from;
  from.set_dir(Folder(folder));
  return from;
}

// Waits until a checkpoint is complete that is newer than `step`; returns its step.
uint64_t AwaitCheckpoint(Cluster* cluster, JobId job, uint64_t step) {
  const proto::JobStatus status = cluster->WaitFor(job, [&](const proto::JobStatus& now) {
    return now.checkpoints().newest_clock() > step || now.state() == proto::FAILED;
  });
  EXPECT_EQ(status.state(), proto::RUNNING) << status.reason();
  return status.checkpoints().newest_clock();
}

proto::JobStatus Resume(Cluster* cluster, const proto::Job& job, const proto::ResumeFrom& from) {
  const absl::StatusOr<JobId> id = cluster->client().Submit(job, from);
  EXPECT_TRUE(id.ok()) << id.status();
  return id.ok() ? cluster->WaitForEnd(*id) : proto::JobStatus();
}

TEST(Resume, AJobGoesOnAfterTheDeathOfEachOfItsProcessesWithTheSameBits) {
  Cluster cluster({2, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  constexpr int kSteps = 600;
  const proto::JobStatus undisturbed = cluster.RunToEnd(KeptJob("undisturbed", kSteps));
  proto::Job job = SlowJob("disturbed", kSteps);
  job.mutable_restart()->set_attempts(20);
  const absl::StatusOr<JobId> id = cluster.Submit(job);
  ASSERT_TRUE(id.ok()) << id.status();

  uint64_t newest = 0;
  std::vector<std::string> reasons;
  // Kills something once there is a new checkpoint, and waits until the job trains again.
  const auto disturb = [&](const std::string& reason, const std::function<void()>& kill) {
    newest = AwaitCheckpoint(&cluster, *id, newest);
    reasons.push_back(reason);
    kill();
    const proto::JobStatus status = cluster.WaitFor(*id, [&](const proto::JobStatus& now) {
      return now.state() == proto::FAILED || now.state() == proto::FINISHED ||
             (now.state() == proto::RUNNING && now.progress().step() > 0 &&
              now.restarts_size() == static_cast<int>(reasons.size()));
    });
    ASSERT_EQ(status.state(), proto::RUNNING) << reason << ": " << status.reason();
    EXPECT_THAT(status.restarts().rbegin()->reason(), HasSubstr(reason));
    EXPECT_GE(status.restarts().rbegin()->clock(), newest);
  };
  disturb("killed by signal 9", [] { kill(ListProcesses("rank").front(), SIGKILL); });
  disturb("killed by signal 9", [] { kill(ListProcesses("aggregator").front(), SIGKILL); });
  disturb("worker w1", [&] {
    cluster.worker(1).process->Signal(SIGKILL);
    ASSERT_EQ(cluster.StartWorker(1), absl::OkStatus());
  });
  disturb("server s1", [&] {
    cluster.server(1).process->Signal(SIGKILL);
    ASSERT_EQ(cluster.StartServer(1), absl::OkStatus());
  });
  // On the one that is left.
  disturb("server s0", [&] { cluster.server(0).process->Signal(SIGKILL); });
  // Training does not need it.
  newest = AwaitCheckpoint(&cluster, *id, newest);
  cluster.coordinator().process->Signal(SIGKILL);
  ASSERT_EQ(cluster.StartCoordinator(), absl::OkStatus());
  disturb("killed by signal 9", [] { kill(ListProcesses("rank").back(), SIGKILL); });

  const proto::JobStatus status = cluster.WaitForEnd(*id);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.restarts_size(), static_cast<int>(reasons.size()));
  EXPECT_EQ(status.shards_size(), 1);
  EXPECT_EQ(ModelOf(status), ModelOf(undisturbed));
  EXPECT_EQ(Hashes(status.run_dir(), 0).back(), Hashes(undisturbed.run_dir(), 0).back());
  // Each step is in the metrics once.
  EXPECT_EQ(WindowsOf(status), WindowsOf(undisturbed));
  EXPECT_EQ(status.progress().samples(), undisturbed.progress().samples());
}

TEST(Resume, AJobGoesOnByHandWithOtherServersShardsAndNodesWithTheSameBits) {
  proto::JobStatus undisturbed, cancelled;
  {
    Cluster cluster({2, 1, 2, 2});
    ASSERT_EQ(cluster.Start(), absl::OkStatus());
    undisturbed = cluster.RunToEnd(KeptJob("undisturbed", 120));
    const absl::StatusOr<JobId> id = cluster.Submit(SlowJob("by-hand", 120));
    ASSERT_TRUE(id.ok()) << id.status();
    AwaitCheckpoint(&cluster, *id, 20);
    ASSERT_EQ(cluster.client().Cancel(*id), absl::OkStatus());
    cancelled = cluster.WaitForEnd(*id);
    EXPECT_EQ(cancelled.state(), proto::CANCELLED);
    cluster.StopAll();
  }
  Cluster cluster({1, 3, 4, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = KeptJob("by-hand", 120);
  job.set_ranks_per_node(1);
  const proto::JobStatus status = Resume(&cluster, job, From("by-hand"));
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_GE(status.checkpoints().resumed_clock(), 40);
  EXPECT_EQ(status.checkpoints().resumed_dir(), Folder("by-hand"));
  EXPECT_EQ(status.nodes_size(), 4);
  EXPECT_EQ(status.shards_size(), 3);
  EXPECT_EQ(ModelOf(status), ModelOf(undisturbed));

  // And on from its end, by its number.
  job.set_max_steps(160);
  proto::ResumeFrom by_number;
  by_number.set_job_id(status.job_id());
  const proto::JobStatus longer = Resume(&cluster, job, by_number);
  ASSERT_EQ(longer.state(), proto::FINISHED) << longer.reason();
  EXPECT_EQ(longer.checkpoints().resumed_clock(), 120);
  EXPECT_EQ(WindowsOf(longer), (std::vector<uint64_t>{128, 130, 140, 150, 160}));
  job.mutable_checkpoint()->set_dir(Folder("longer"));
  EXPECT_EQ(ModelOf(longer), ModelOf(cluster.RunToEnd(job)));
}

TEST(Resume, AsyncGoesOnWithEachNodeFromWhereItWas) {
  Cluster cluster({2, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = SlowJob("async", 200, "async {}");
  job.mutable_restart()->set_attempts(3);
  const absl::StatusOr<JobId> id = cluster.Submit(job);
  ASSERT_TRUE(id.ok()) << id.status();
  AwaitCheckpoint(&cluster, *id, 40);
  kill(ListProcesses("rank").front(), SIGKILL);
  const proto::JobStatus status = cluster.WaitForEnd(*id);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.restarts_size(), 1);
  EXPECT_GE(status.restarts(0).clock(), 40);
  EXPECT_EQ(status.progress().step(), 200);
  EXPECT_EQ(status.progress().samples(), 4 * 200 * 16);
}

TEST(Resume, ACheckpointThatIsDamagedIsPassedOverByName) {
  Cluster cluster({2, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = KeptJob("damaged", 100);
  job.mutable_checkpoint()->set_keep(4);
  const proto::JobStatus undisturbed = cluster.RunToEnd(job);
  // 40, 60, 80, 100, all of them but one.
  fs::resize_file(CheckpointOf("damaged", 100) / "manifest.json", 100);
  const fs::path flipped = AnObjectOf("damaged", 80);
  std::string content = ReadAll(flipped);
  content[content.size() / 2] ^= 1;
  std::ofstream(flipped, std::ios::binary) << content;
  const fs::path removed = AnObjectOf("damaged", 60);
  fs::remove(removed);
  // Elsewhere, so that nothing is deleted here.
  job.mutable_checkpoint()->set_dir(Folder("onward"));
  const proto::JobStatus status = Resume(&cluster, job, From("damaged"));
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.checkpoints().resumed_clock(), 40);
  EXPECT_EQ(ModelOf(status), ModelOf(undisturbed));
  const std::string passed = absl::StrJoin(status.checkpoints().passed_over(), "\n");
  EXPECT_THAT(passed, AllOf(HasSubstr((CheckpointOf("damaged", 100) / "manifest.json").string()),
                            HasSubstr(flipped.string()), HasSubstr(removed.string())));

  fs::remove_all(CheckpointOf("damaged", 40));
  job.mutable_checkpoint()->set_dir(Folder("nowhere"));
  const proto::JobStatus none = Resume(&cluster, job, From("damaged"));
  EXPECT_EQ(none.state(), proto::FAILED);
  EXPECT_THAT(none.reason(), HasSubstr("no complete checkpoint in " + Folder("damaged")));
}

TEST(Resume, WhatDoesNotFitIsRefusedByName) {
  Cluster cluster({1, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  cluster.RunToEnd(KeptJob("fits", 40));
  const auto refusal = [&](const std::string& setting, const std::string& from = "fits") {
    proto::Job job = KeptJob("fits", 60);
    job.mutable_checkpoint()->set_dir(Folder(from));
    EXPECT_EQ(ApplySettings({setting}, &job), absl::OkStatus());
    const absl::StatusOr<JobId> id = cluster.client().Submit(job, From(from));
    return id.ok() ? cluster.WaitForEnd(*id).reason() : std::string(id.status().message());
  };
  EXPECT_THAT(refusal("seed=2"), HasSubstr("seed: 2, but the checkpoint's is 1"));
  EXPECT_THAT(refusal("optimizer={sgd {}}"), HasSubstr("optimizer: {sgd"));
  EXPECT_THAT(refusal("model.zoo=mlp"), AllOf(HasSubstr("mlp"), HasSubstr("lenet5")));
  EXPECT_THAT(refusal("data.batch_per_rank=8"), HasSubstr("data: "));
  EXPECT_THAT(refusal("ranks=2"), HasSubstr("ranks: 2, but the checkpoint's is 4"));
  EXPECT_THAT(refusal("chunk_elements=2048"),
              HasSubstr("chunk_elements: 2048, but the checkpoint"));
  EXPECT_THAT(refusal("consistency={async {}}"), HasSubstr("consistency: {async"));
  EXPECT_THAT(refusal("epochs=9", "nothing-there"),
              HasSubstr("no complete checkpoint in " + Folder("nothing-there")));
  EXPECT_THAT(cluster.RunToFailure(KeptJob("fits", 60)),
              AllOf(HasSubstr("has checkpoints of job 1 (kept)"), HasSubstr("--resume")));

  const absl::StatusOr<JobId> writes = cluster.Submit(SlowJob("busy", 10'000));
  ASSERT_TRUE(writes.ok()) << writes.status();
  EXPECT_THAT(std::string(cluster.Submit(KeptJob("busy", 40)).status().message()),
              HasSubstr("(kept) writes to " + Folder("busy")));
  EXPECT_EQ(cluster.client().Cancel(*writes), absl::OkStatus());
}

TEST(Resume, ACheckpointThatCannotBeWrittenCostsNothingButItself) {
  Cluster cluster({2, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const std::string in_the_way = CheckpointOf("blocked", 20).string();
  fs::create_directories(Folder("blocked"));
  std::ofstream(in_the_way) << "a file where a folder is to be";
  const absl::StatusOr<JobId> id = cluster.Submit(SlowJob("blocked", 100));
  ASSERT_TRUE(id.ok()) << id.status();
  const proto::JobStatus failing = cluster.WaitFor(*id, [](const proto::JobStatus& now) {
    return now.checkpoints().failed() > 0 || now.state() == proto::FAILED;
  });
  EXPECT_EQ(failing.state(), proto::RUNNING) << failing.reason();
  EXPECT_THAT(failing.checkpoints().problem(), AllOf(HasSubstr("step 20"), HasSubstr(in_the_way)));
  const proto::JobStatus status = cluster.WaitForEnd(*id);
  EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.checkpoints().failed(), 1);
  EXPECT_GE(status.checkpoints().complete(), 3);
  EXPECT_EQ(status.checkpoints().problem(), "");
}

}  // namespace
}  // namespace strata::tests
