// Checkpoints that are damaged, jobs that cannot go on from what is there, folders that fail.
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint/checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/checkpointed.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// Returns the path of an object of shard 0 in the checkpoint of this step.
std::string ObjectOf(const std::string& dir, uint64_t step) {
  const fs::path folder =
      fs::path(dir) / fs::path(Checkpoints::ObjectName(step, "x")).parent_path();
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("shard-0-")) return entry.path().string();
  }
  ADD_FAILURE() << "no object in " << folder;
  return "";
}

void Flip(const std::string& path) {
  std::string content = Content(path);
  content[content.size() / 2] ^= 0x10;
  Write(path, content);
}

class Damage : public Checkpointed {
 protected:
  // Trains for 60 steps, and keeps the checkpoints of the steps 20, 40 and 60.
  void SetUp() override {
    Start({.servers = 2, .shards = 1, .nodes = 2, .slots = 2});
    proto::Job job = CheckpointedJob("made", 2, 60);
    job.mutable_checkpoint()->set_keep(3);
    const JobId id(Run(job).job_id());
    cluster_->WaitFor(
        id, [](const proto::JobStatus& status) { return status.checkpoints().complete() == 3; });
  }
  std::string Copy(const std::string& name) const {
    const std::string dir = TestDir() + "/" + name;
    fs::copy(made_, dir, fs::copy_options::recursive);
    return dir;
  }
  static proto::Job Longer(const std::string& folder) { return CheckpointedJob(folder, 2, 70); }

  const std::string made_ = TestDir() + "/made";
};

TEST_F(Damage, OfTheNewestIsNamedAndTheOneBeforeIsTaken) {
  const std::string undisturbed = Model(Run(Longer("undisturbed")));
  const std::string manifest = Checkpoints::ObjectName(60, "manifest.json");
  struct Case {
    std::string name, says;
    std::function<void(const std::string& dir)> damage;
  };
  const std::vector<Case> cases = {
      {"flipped", ": checksum ", [](const auto& dir) { Flip(ObjectOf(dir, 60)); }},
      {"removed", ": No such file", [](const auto& dir) { fs::remove(ObjectOf(dir, 60)); }},
      {"cut", " bytes, its manifest says ",
       [](const auto& dir) { fs::resize_file(ObjectOf(dir, 60), 1000); }},
      {"torn", manifest, [&](const auto& dir) { fs::resize_file(dir + "/" + manifest, 100); }}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const std::string dir = Copy(one.name);
    one.damage(dir);
    // It writes there, too: what is damaged is made anew.
    const proto::JobStatus status = Run(Longer(one.name), FromFolder(dir));
    EXPECT_EQ(status.checkpoints().resumed_step(), 40u);
    ASSERT_EQ(status.checkpoints().passed_over_size(), 1) << status.ShortDebugString();
    EXPECT_THAT(status.checkpoints().passed_over(0), HasSubstr(one.says));
    EXPECT_THAT(status.checkpoints().passed_over(0), HasSubstr(dir + "/clock-"));
    EXPECT_TRUE(Model(status) == undisturbed);
    const CommandResult shown = RunStrata(
        {"status", std::to_string(status.job_id()), "--coordinator", cluster_->address()});
    EXPECT_THAT(shown.out, HasSubstr(one.says));
    EXPECT_EQ(RunStrata({"checkpoint", "verify", dir}).status.code, 0)
        << RunStrata({"checkpoint", "verify", dir}).out;
  }
}

TEST_F(Damage, OfAllOfThemFailsTheJobWithTheFolderNamed) {
  const std::string dir = Copy("all");
  for (const uint64_t step : {20, 40, 60}) Flip(ObjectOf(dir, step));
  EXPECT_THAT(Failure(Longer("other"), FromFolder(dir)),
              StartsWith("no complete checkpoint in " + dir));
  for (const uint64_t step : {20, 40, 60}) {
    fs::remove(dir + "/" + Checkpoints::ObjectName(step, "manifest.json"));
  }
  EXPECT_EQ(Failure(Longer("other"), FromFolder(dir)),
            "no complete checkpoint in " + dir + ": that of step 60 has no manifest");
}

TEST_F(Damage, WhatDoesNotFitIsRefusedByName) {
  const auto with = [](const std::function<void(proto::Job*)>& change) {
    proto::Job job = Longer("other");
    change(&job);
    return job;
  };
  const std::string cannot = "cannot go on from " + made_ + " (job 1, job): ";
  const std::vector<std::pair<proto::Job, std::string>> cases = {
      {with([](auto* job) { job->mutable_model()->set_zoo("mlp"); }),
       "model: {zoo: \"mlp\"}, but the checkpoint's is {zoo: \"lenet5\"}"},
      {with([](auto* job) { job->mutable_optimizer()->mutable_sgd(); }), "optimizer: {sgd {"},
      {with([](auto* job) { job->set_seed(7); }), "seed: 7, but the checkpoint's is "},
      {with([](auto* job) { job->mutable_data()->set_batch_per_rank(32); }), "data: {"},
      {with([](auto* job) { job->set_chunk_elements(2048); }),
       "chunk_elements: 2048, but the checkpoint's is 1024"},
      {with([](auto* job) { job->mutable_consistency()->mutable_async(); }),
       "consistency: {async {"}};
  for (const auto& [job, why] : cases) {
    EXPECT_THAT(Failure(job, FromFolder(made_)), StartsWith(cannot + why));
  }
  EXPECT_THAT(Failure(Longer("made")),
              StartsWith("checkpoint.dir: " + made_ + " has checkpoints of job 1 (job): go on "));
  const std::string missing = TestDir() + "/missing", empty = TestDir() + "/empty";
  fs::create_directories(empty);
  EXPECT_THAT(Failure(Longer("other"), FromFolder(missing)), HasSubstr(missing));
  EXPECT_FALSE(fs::exists(missing));
  EXPECT_EQ(Failure(Longer("other"), FromFolder(empty)), "no complete checkpoint in " + empty);

  EXPECT_EQ(Refusal(Longer("other"), FromJob(99)), "resume: no job 99");
  EXPECT_THAT(Refusal(with([](auto* job) { job->mutable_checkpoint()->set_every_steps(0); })),
              StartsWith("checkpoint.every_steps: 0 is not in 1 to"));
  EXPECT_THAT(Refusal(Longer("other"), FromFolder("made")),
              StartsWith("resume: \"made\" is neither an absolute path nor s3://"));
  const JobId running = Submit(CheckpointedJob("shared", 2, 10'000'000));
  EXPECT_EQ(Refusal(CheckpointedJob("shared", 2, 70)),
            "checkpoint.dir: job " + std::to_string(running.value()) + " (job) writes to " +
                TestDir() + "/shared");
  EXPECT_EQ(cluster_->client().Cancel(running), absl::OkStatus());
  proto::Job program = JobFromText(R"(
    name: "program"
    program { path: "linear" }
    optimizer { sgd {} }
    ranks: 4
    ranks_per_node: 2
    checkpoint { dir: "/set-below" every_steps: 2 }
  )");
  program.mutable_program()->set_path(fs::absolute("examples/linear/linear").string());
  program.mutable_checkpoint()->set_dir(TestDir() + "/program");
  EXPECT_EQ(Failure(program),
            "checkpoint: the program does not say that it can go on from a step that is not its "
            "first (can_resume)");
}

class Folder : public Checkpointed {
 protected:
  const std::string dir_ = TestDir() + "/store";

  // Makes the folder a file system of 1 MiB, which daemons that are started from here on see.
  // Errors: why this user may not.
  absl::Status MakeSmall() const {
    fs::create_directories(dir_);
    if (unshare(CLONE_NEWNS) != 0) return absl::ErrnoToStatus(errno, "unshare");
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return absl::ErrnoToStatus(errno, "mount /");
    }
    return Mount(0);
  }
  absl::Status Mount(unsigned long flags) const {
    if (mount("none", dir_.c_str(), "tmpfs", flags, "size=1m") == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, "mount " + dir_);
  }
  void AwaitProblem(JobId job, const std::string& says) {
    const proto::JobStatus status = cluster_->WaitFor(job, [&](const proto::JobStatus& status) {
      return control::HasEnded(status.state()) ||
             status.checkpoints().problem().find(says) != std::string::npos;
    });
    EXPECT_EQ(status.state(), proto::RUNNING) << status.reason();
    EXPECT_THAT(status.checkpoints().problem(), HasSubstr(dir_));
    EXPECT_GT(status.checkpoints().failed(), 0u);
    // Training goes on.
    cluster_->WaitForStep(job, status.progress().step() + 20);
    const std::string number = std::to_string(job.value());
    EXPECT_THAT(RunStrata({"status", number, "--coordinator", cluster_->address()}).out,
                HasSubstr(says));
    EXPECT_THAT(Content(cluster_->server(0).log_path), HasSubstr(says));
  }
  void AwaitMended(JobId job) {
    const uint32_t complete = cluster_->Status(job).checkpoints().complete();
    const proto::JobStatus status = cluster_->WaitFor(job, [&](const proto::JobStatus& status) {
      return control::HasEnded(status.state()) || status.checkpoints().complete() > complete;
    });
    EXPECT_EQ(status.state(), proto::RUNNING) << status.reason();
    cluster_->WaitFor(
        job, [](const proto::JobStatus& status) { return status.checkpoints().problem().empty(); });
    EXPECT_EQ(RunStrata({"checkpoint", "verify", dir_}).status.code, 0);
  }
};

TEST_F(Folder, ThatIsFullOrReadOnlyHoldsUpNoTrainingAndIsUsedAgainOnceItIsMended) {
  const absl::Status small = MakeSmall();
  if (absl::IsPermissionDenied(small)) {
    GTEST_SKIP() << "a file system that is full takes root, to mount one: " << small.message();
  }
  ASSERT_EQ(small, absl::OkStatus());
  Start({.servers = 1, .shards = 1, .nodes = 1, .slots = 4});
  // There is room for three checkpoints of the weights: two complete ones and the next.
  proto::Job job = CheckpointedJob("store", 4, 10'000'000);
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_checkpoint()->set_keep(2);
  job.mutable_checkpoint()->set_every_steps(10);
  SlowDown(&job, 10);
  const JobId id = Submit(job);
  AwaitCheckpoint(id, 10);
  ASSERT_EQ(Mount(MS_REMOUNT | MS_RDONLY), absl::OkStatus());
  AwaitProblem(id, "Read-only file system");
  ASSERT_EQ(Mount(MS_REMOUNT), absl::OkStatus());
  AwaitMended(id);
  Write(dir_ + "/ballast", std::string(8 << 20, 'x'));  // what of it there is room for
  AwaitProblem(id, "No space left on device");
  fs::remove(dir_ + "/ballast");
  AwaitMended(id);
  EXPECT_EQ(cluster_->client().Cancel(id), absl::OkStatus());
}

TEST_F(Folder, ThatBecomesAFileHoldsUpNoTraining) {
  Start({.servers = 1, .shards = 1, .nodes = 1, .slots = 4});
  proto::Job job = CheckpointedJob("store", 4, 10'000'000);
  SlowDown(&job, 10);
  const JobId id = Submit(job);
  AwaitCheckpoint(id, 20);
  fs::rename(dir_, dir_ + ".away");
  Write(dir_, "");
  AwaitProblem(id, "Not a directory");
  fs::remove(dir_);
  AwaitMended(id);
  EXPECT_EQ(cluster_->client().Cancel(id), absl::OkStatus());
}

}  // namespace
}  // namespace strata::tests
