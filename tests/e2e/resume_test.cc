#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/checkpointed.h"
#include "tests/e2e/testing/leftovers.h"

// Jobs resume from their checkpoints: automatically after any death, and at a user's request.

namespace strata::tests {

namespace {

using testing::HasSubstr;

class Deaths : public Checkpointed {
 protected:
  // Waits for a checkpoint newer than the last death, lets `death` happen, and waits for the
  // restart. Expects its reason to contain `why`.
  void Suffer(const std::string& why, const std::function<void()>& death) {
    const proto::JobStatus before = AwaitCheckpoint(job_, newest_ + 1);
    ASSERT_EQ(before.state(), proto::RUNNING) << why;
    death();
    const int restarts = before.restarts_size();
    const proto::JobStatus after = cluster_->WaitFor(job_, [&](const proto::JobStatus& status) {
      return control::HasEnded(status.state()) ||
             (status.restarts_size() > restarts && status.checkpoints().resumed_step() > newest_);
    });
    ASSERT_EQ(after.restarts_size(), restarts + 1) << after.reason();
    EXPECT_THAT(after.restarts(restarts).reason(), HasSubstr(why));
    EXPECT_GE(after.restarts(restarts).step(), before.checkpoints().newest_step());
    newest_ = after.restarts(restarts).step();
  }
  static void Kill(Daemon* daemon) {
    daemon->process->Signal(SIGKILL);
    *daemon = Daemon();
  }

  JobId job_;
  uint64_t newest_ = 0;
};

TEST_F(Deaths, OfEveryRoleOneAfterTheOtherLeaveTheModelAsItWouldBe) {
  Start({.servers = 2, .shards = 2, .nodes = 2, .slots = 2});
  constexpr int kSteps = 500;
  const std::string undisturbed = Model(Run(CheckpointedJob("undisturbed", 2, kSteps)));

  proto::Job job = CheckpointedJob("victim", 2, kSteps);
  GoOnByItself(&job);
  SlowDown(&job, 10);
  job_ = Submit(job);
  Suffer("killed by signal 9", [] { kill(ListProcesses("rank").front(), SIGKILL); });
  Suffer("aggregator", [] { kill(ListProcesses("aggregator").front(), SIGKILL); });
  Suffer("server s1", [&] { Kill(&cluster_->server(1)); });  // continues on one
  EXPECT_EQ(AwaitCheckpoint(job_, newest_ + 1).shards_size(), 2);
  ASSERT_EQ(cluster_->StartServer(1), absl::OkStatus());
  Suffer("worker w1", [&] {
    Kill(&cluster_->worker(1));
    ASSERT_EQ(cluster_->StartWorker(1), absl::OkStatus());
  });
  EXPECT_EQ(AwaitCheckpoint(job_, newest_ + 1).shards_size(), 4);
  Suffer("server s0", [&] {
    Kill(&cluster_->server(0));
    ASSERT_EQ(cluster_->StartServer(0), absl::OkStatus());
  });
  // Its death stops nothing.
  const uint64_t before = AwaitCheckpoint(job_, newest_ + 1).checkpoints().newest_step();
  Kill(&cluster_->coordinator());
  ASSERT_EQ(cluster_->StartCoordinator(), absl::OkStatus());
  AwaitCheckpoint(job_, before + 20);
  Suffer("killed by signal 9", [] { kill(ListProcesses("rank").back(), SIGKILL); });

  const proto::JobStatus status = cluster_->WaitForEnd(job_);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.restarts_size(), 6);
  EXPECT_EQ(status.progress().step(), uint64_t{kSteps});
  EXPECT_TRUE(Model(status) == undisturbed);
  ExpectWindows(status, kSteps);
  const CommandResult shown =
      RunStrata({"status", std::to_string(job_.value()), "--coordinator", cluster_->address()});
  EXPECT_THAT(shown.out, testing::ContainsRegex("  restart 1 .*, from step [0-9]+: .*signal 9"));
  EXPECT_THAT(shown.out, HasSubstr("  restart 6 "));
}

TEST_F(Deaths, OfARankInAnAsyncJobLoseAndRepeatNoSample) {
  Start({.servers = 2, .shards = 1, .nodes = 2, .slots = 2});
  constexpr int kSteps = 200;
  proto::Job job = CheckpointedJob("victim", 2, kSteps, "async {}");
  GoOnByItself(&job);
  SlowDown(&job, 10);
  job_ = Submit(job);
  Suffer("killed by signal 9", [] { kill(ListProcesses("rank").front(), SIGKILL); });
  Suffer("server s1", [&] { Kill(&cluster_->server(1)); });
  const proto::JobStatus status = cluster_->WaitForEnd(job_);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.progress().step(), uint64_t{kSteps});
  EXPECT_EQ(status.progress().samples(), uint64_t{kSteps} * 64);
  ExpectWindows(status, kSteps, /*in_step=*/false);
}

// Batch normalisation's running statistics belong to each rank.
TEST_F(Deaths, OfARankLeavesRunningStatisticsAsTheyWouldBe) {
  Start({.servers = 1, .shards = 1, .nodes = 2, .slots = 2});
  constexpr int kSteps = 60;
  proto::Job whole = CheckpointedJob("undisturbed", 2, kSteps);
  whole.mutable_model()->set_zoo("cnn");
  whole.mutable_data()->set_batch_per_rank(4);
  const std::string undisturbed = Model(Run(whole));
  proto::Job job = whole;
  job.mutable_checkpoint()->set_dir(TestDir() + "/victim");
  GoOnByItself(&job);
  SlowDown(&job, 40);
  job_ = Submit(job);
  Suffer("killed by signal 9", [] { kill(ListProcesses("rank").front(), SIGKILL); });
  const proto::JobStatus status = cluster_->WaitForEnd(job_);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.checkpoints().objects(), 5u);  // of the shard, and of each rank
  EXPECT_TRUE(Model(status) == undisturbed);
  EXPECT_EQ(RunStrata({"checkpoint", "verify", TestDir() + "/victim"}).status.code, 0);
}

// `strata local`, which restarts its own daemons.
class LocalDeaths : public testing::Test {
 protected:
  Command Start(const proto::Job& job) {
    return StartStrata({"local", "--servers", "1", "--nodes", "2", "--slots", "2", "--runs", runs_,
                        "--job", WriteJob(TestDir(), job)});
  }
  // Waits for this many steps more than at the last call.
  void AwaitSteps(uint64_t more) {
    const auto step = [this]() -> uint64_t {
      const std::string run_dir = runs_ + "/job-1";
      if (!std::filesystem::exists(run_dir + "/metrics.jsonl")) return 0;
      const auto metrics = Metrics(run_dir);
      return metrics.empty() ? 0 : metrics.back()["step"].get<uint64_t>();
    };
    ASSERT_TRUE(WaitUntil([&] { return step() >= steps_ + more; }));
    steps_ = step();
  }

  const std::string runs_ = TestDir() + "/runs";
  uint64_t steps_ = 0;
};

TEST_F(LocalDeaths, OfAnyDaemonAreMadeUpForAndTheJobGoesOnToTheSameModel) {
  const std::string model = runs_ + "/job-1/model.safetensors";
  const CommandResult undisturbed = Finish(Start(CheckpointedJob("undisturbed", 2, 500)));
  ASSERT_TRUE(undisturbed.status.ok()) << undisturbed.err;
  const std::string bits = Content(model);
  std::filesystem::remove_all(runs_);

  proto::Job job = CheckpointedJob("victim", 2, 500);
  GoOnByItself(&job);
  SlowDown(&job, 10);
  Command local = Start(job);
  for (const char* role : {"worker", "server", "coordinator", "worker"}) {
    AwaitSteps(40);
    ASSERT_FALSE(ListProcesses(role).empty()) << role;
    kill(ListProcesses(role).front(), SIGKILL);
  }
  const CommandResult end = Finish(std::move(local));
  ASSERT_TRUE(end.status.ok()) << end.err;
  EXPECT_TRUE(Content(model) == bits);
  EXPECT_THAT(end.err, HasSubstr("strata: warning: server s0: killed by signal 9 (Killed); it is "
                                 "started again after 200ms\n"));
  EXPECT_THAT(end.err, HasSubstr("strata: warning: coordinator: killed by signal 9 (Killed); "));
}

TEST_F(LocalDeaths, WithoutRestartFailTheJobWithAReasonThatNamesWhatDied) {
  Command local = Start(LenetJob("job", 4, 2, 10'000'000));
  AwaitSteps(1);
  kill(ListProcesses("worker").front(), SIGKILL);
  const CommandResult end = Finish(std::move(local));
  EXPECT_EQ(end.status.code, 1);
  EXPECT_THAT(end.err, testing::ContainsRegex("strata: error: job 1 .*failed.*worker w[01]"));
}

TEST_F(LocalDeaths, ThatComeTooOftenEndItInOneLine) {
  proto::Job job = CheckpointedJob("victim", 2, 1'000'000);
  GoOnByItself(&job);
  Command local = Start(job);
  AwaitSteps(1);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(WaitUntil([] { return !ListProcesses("server").empty(); }));
    kill(ListProcesses("server").front(), SIGKILL);
    ASSERT_TRUE(WaitUntil([] { return ListProcesses("server").empty(); }));
  }
  const CommandResult end = Finish(std::move(local));
  EXPECT_EQ(end.status.code, 1);
  EXPECT_THAT(end.err,
              testing::EndsWith("strata: error: server s0: has ended 6 times within 1m and "
                                "is not started again; at last: killed by signal 9 "
                                "(Killed)\n"));
  EXPECT_TRUE(WaitUntil([] { return Processes().empty(); }, absl::Seconds(20)));
}

class Elsewhere : public Checkpointed {};

TEST_F(Elsewhere, OnOtherServersShardsAndNodesItEndsWithTheSameBits) {
  Start({.servers = 1, .shards = 2, .nodes = 4, .slots = 2});
  const proto::Job whole = CheckpointedJob("whole", 2, 100);
  const std::string undisturbed = Model(Run(whole));
  proto::Job job = CheckpointedJob("moved", 1, 100);
  SlowDown(&job, 20);
  const JobId first = Submit(job);
  CancelAfter(first, 40);

  // On more servers, by the job's number; it writes to its own folder.
  ASSERT_EQ(cluster_->StartServer(1), absl::OkStatus());
  proto::Job second = CheckpointedJob("second", 2, 60);
  second.clear_max_steps();
  second.set_epochs(2);  // of 32 steps
  const proto::JobStatus more = Run(second, FromJob(first.value()));
  EXPECT_EQ(more.shards_size(), 4);
  EXPECT_EQ(more.checkpoints().resumed_dir(), TestDir() + "/moved");
  EXPECT_GE(more.checkpoints().resumed_step(), 40u);
  EXPECT_EQ(more.progress().step(), 64u);

  // On another cluster, which does not know the jobs; for more steps than before.
  cluster_->StopAll();
  std::filesystem::remove_all(TestDir() + "/state");
  std::filesystem::remove_all(cluster_->runs_dir());
  Start({.servers = 3, .shards = 1, .nodes = 2, .slots = 2});
  proto::Job third = CheckpointedJob("second", 2, 100);
  const proto::JobStatus last = Run(third, FromFolder(TestDir() + "/second"));
  EXPECT_EQ(last.shards_size(), 3);
  EXPECT_EQ(last.checkpoints().resumed_step(), 60u);
  EXPECT_TRUE(Model(last) == undisturbed);
  // The last one may become complete a moment after the job's end.
  cluster_->WaitFor(JobId(last.job_id()), [](const proto::JobStatus& status) {
    return status.checkpoints().newest_step() == 100;
  });
  // The newer checkpoints are its own.
  EXPECT_EQ(Run(CheckpointedJob("second", 2, 110), FromFolder(TestDir() + "/second"))
                .checkpoints()
                .resumed_step(),
            100u);
}

TEST_F(Elsewhere, TheCommandGoesOnFromAFolderForMoreEpochs) {
  Start({.servers = 1, .shards = 1, .nodes = 2, .slots = 2});
  proto::Job job = CheckpointedJob("job", 2, 0);
  job.clear_max_steps();
  job.set_epochs(2);
  const proto::JobStatus two = Run(job);
  proto::Job again = job;
  again.set_epochs(3);
  again.mutable_checkpoint()->set_dir(TestDir() + "/again");
  const std::string undisturbed = Model(Run(again));
  const CommandResult submitted =
      RunStrata({"submit", WriteJob(TestDir(), job), "--resume", TestDir() + "/job", "--set",
                 "epochs=3", "--follow", "--coordinator", cluster_->address()});
  EXPECT_EQ(submitted.status.code, 0) << submitted.out << submitted.err;
  const proto::JobStatus three = cluster_->Status(JobId(two.job_id() + 2));
  EXPECT_EQ(three.checkpoints().resumed_step(), 60u);
  EXPECT_TRUE(Model(three) == undisturbed);
}

// Damaged checkpoints, jobs that do not fit the checkpoint, failing folders.

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
  // Trains for 60 steps and keeps the checkpoints of steps 20, 40 and 60.
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
    // It also writes to that folder: damaged objects are written again.
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

  // Mounts a file system of 1 MiB at the folder, visible to daemons started from now on. Errors:
  // why this user may not.
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
    // Training continues.
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
  Write(dir_ + "/ballast", std::string(8 << 20, 'x'));  // as much of it as fits
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

// Jobs with state on their nodes, and rings, resume from their checkpoints.

constexpr int kSteps = 100;

struct Kind {
  std::string name;
  std::function<void(proto::Job*)> change;
};

void SetPreset(const std::string& preset, proto::Job* job) {
  job->mutable_consistency()->set_preset(preset);
}

std::vector<Kind> Kinds() {
  return {{"delay1_int8",
           [](proto::Job* job) {
             SetPreset("delay1", job);
             job->mutable_push()->set_codec(proto::Encoding::INT8);
           }},
          {"diloco", [](proto::Job* job) { SetPreset("diloco(4)", job); }},
          {"significance", [](proto::Job* job) { SetPreset("significance", job); }},
          {"ring",
           [](proto::Job* job) {
             job->set_exchange(proto::Job::RING);
             job->mutable_all_reduce()->set_algorithm(proto::AllReduce::HALVING_DOUBLING);
           }},
          {"ring_bf16_lars", [](proto::Job* job) {
             job->set_exchange(proto::Job::RING);
             job->mutable_push()->set_codec(proto::Encoding::BF16);
             job->mutable_optimizer()->mutable_lars();
           }}};
}

class NodeState : public Checkpointed {};

TEST_F(NodeState, GoesOnWithTheBitsOfAnUndisturbedRun) {
  Start({.servers = 2, .shards = 1, .nodes = 2, .slots = 2});
  for (const Kind& kind : Kinds()) {
    SCOPED_TRACE(kind.name);
    proto::Job job = CheckpointedJob(kind.name + "-whole", 2, kSteps);
    kind.change(&job);
    const proto::JobStatus whole = Run(job);
    const std::string undisturbed = Model(whole);
    // The last checkpoint may become complete after the job's end.
    cluster_->WaitFor(JobId(whole.job_id()), [](const proto::JobStatus& status) {
      return status.checkpoints().complete() + status.checkpoints().failed() == 5;
    });
    job = CheckpointedJob(kind.name, 2, kSteps);
    kind.change(&job);
    GoOnByItself(&job);
    SlowDown(&job, 10);
    const JobId id = Submit(job);
    uint64_t newest = 0;
    for (const std::string role : {"rank", "aggregator"}) {
      newest = AwaitCheckpoint(id, newest + 1).checkpoints().newest_step();
      kill(ListProcesses(role).front(), SIGKILL);
      const int restarts = role == "rank" ? 1 : 2;
      cluster_->WaitFor(id, [&](const proto::JobStatus& status) {
        return control::HasEnded(status.state()) || status.restarts_size() == restarts;
      });
    }
    const proto::JobStatus status = cluster_->WaitForEnd(id);
    ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
    ASSERT_EQ(status.restarts_size(), 2);
    EXPECT_GE(status.restarts(1).step(), newest);
    EXPECT_TRUE(Model(status) == undisturbed);
    ExpectWindows(status, kSteps);
    const std::string dir = job.checkpoint().dir();
    EXPECT_EQ(RunStrata({"checkpoint", "verify", dir}).status.code, 0)
        << RunStrata({"checkpoint", "verify", dir}).out;
  }
}

// Returns an object of the newest checkpoint whose name contains `word`.
std::string ObjectWith(const std::string& word, const std::string& dir, uint64_t step) {
  const std::string clock = absl::StrFormat("%s/clock-%020d", dir, step);
  for (const auto& entry : std::filesystem::directory_iterator(clock)) {
    if (absl::StrContains(entry.path().filename().string(), word)) return entry.path().string();
  }
  ADD_FAILURE() << "no " << word << " in " << clock;
  return "";
}

void FlipLastByte(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get());
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
}

TEST_F(NodeState, ThatIsDamagedIsNamedAndTheCheckpointBeforeIsTaken) {
  Start({.servers = 1, .shards = 1, .nodes = 2, .slots = 2});
  for (const bool is_ring : {false, true}) {
    const std::string name = is_ring ? "ring" : "int8";
    SCOPED_TRACE(name);
    const auto made = [&](const std::string& folder, int steps) {
      proto::Job job = CheckpointedJob(folder, 2, steps);
      if (is_ring) job.set_exchange(proto::Job::RING);
      if (!is_ring) job.mutable_push()->set_codec(proto::Encoding::INT8);
      return job;
    };
    Run(made(name, 60));
    const std::string undisturbed = Model(Run(made(name + "-whole", 80)));
    const std::string dir = TestDir() + "/" + name;
    FlipLastByte(ObjectWith(is_ring ? "shard-1" : "node-1", dir, 60));
    // Into another folder: its nodes are the first to read the objects.
    const proto::JobStatus status = Run(made(name + "-more", 80), FromFolder(dir));
    EXPECT_EQ(status.checkpoints().resumed_step(), 40u);
    ASSERT_EQ(status.checkpoints().passed_over_size(), 1) << status.ShortDebugString();
    EXPECT_THAT(status.checkpoints().passed_over(0), HasSubstr(": checksum "));
    EXPECT_TRUE(Model(status) == undisturbed);
  }
}

// With halving and doubling among three, one node updates nothing.
TEST_F(NodeState, ANodeOfARingThatUpdatesNothingIsNotWaitedFor) {
  Start({.servers = 1, .shards = 1, .nodes = 3, .slots = 1});
  const auto made = [](const std::string& folder, int steps) {
    proto::Job job = CheckpointedJob(folder, 1, steps);
    job.set_ranks(3);
    job.set_exchange(proto::Job::RING);
    job.mutable_all_reduce()->set_algorithm(proto::AllReduce::HALVING_DOUBLING);
    return job;
  };
  const std::string undisturbed = Model(Run(made("whole", 60)));
  const proto::JobStatus first = Run(made("first", 40));
  EXPECT_EQ(first.checkpoints().objects(), 3u);
  const proto::JobStatus rest = Run(made("rest", 60), FromFolder(TestDir() + "/first"));
  EXPECT_GE(rest.checkpoints().resumed_step(), 20u);
  EXPECT_TRUE(Model(rest) == undisturbed);
}

TEST_F(NodeState, StaysWithTheRanksThatItIsOf) {
  Start({.servers = 1, .shards = 1, .nodes = 2, .slots = 4});
  proto::Job job = CheckpointedJob("job", 2, 40);
  job.mutable_push()->set_codec(proto::Encoding::INT8);
  Run(job);
  // Its nodes had two ranks each, and have two again, though one worker has slots for all.
  proto::Job again = CheckpointedJob("again", 0, 60);
  again.mutable_push()->set_codec(proto::Encoding::INT8);
  const proto::JobStatus status = Run(again, FromFolder(TestDir() + "/job"));
  ASSERT_EQ(status.nodes_size(), 2);
  EXPECT_EQ(status.nodes(0).ranks(), 2u);
  EXPECT_EQ(status.nodes(1).ranks(), 2u);
}

// A job without exchange, whose rank alone has the weights, resumes from its checkpoints.

proto::Job AloneJob(const std::string& folder, int steps) {
  proto::Job job = CheckpointedJob(folder, 1, steps);
  job.set_ranks(1);
  job.set_exchange(proto::Job::NONE);
  return job;
}

class RankAlone : public Checkpointed {};

TEST_F(RankAlone, GoesOnWithTheBitsOfAnUndisturbedRun) {
  Start({.servers = 1, .shards = 1, .nodes = 1, .slots = 1});
  const std::string undisturbed = Model(Run(AloneJob("whole", kSteps)));
  proto::Job job = AloneJob("killed", kSteps);
  GoOnByItself(&job);
  SlowDown(&job, 10);
  const JobId id = Submit(job);
  const uint64_t newest = AwaitCheckpoint(id, 20).checkpoints().newest_step();
  kill(ListProcesses("rank").front(), SIGKILL);
  proto::JobStatus status = cluster_->WaitForEnd(id);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  ASSERT_EQ(status.restarts_size(), 1);
  EXPECT_GE(status.restarts(0).step(), newest);
  EXPECT_TRUE(Model(status) == undisturbed);
  const std::string dir = TestDir() + "/killed";
  EXPECT_EQ(RunStrata({"checkpoint", "verify", dir}).status.code, 0);
  const std::string file = TestDir() + "/weights.safetensors";
  const CommandResult exported = RunStrata({"checkpoint", "export", dir, file, "--optimizer"});
  EXPECT_EQ(exported.status.code, 0) << exported.err;
  EXPECT_TRUE(std::filesystem::exists(file));
  // Another command also resumes from it; a job with servers does not.
  status = Run(AloneJob("more", kSteps + 20), FromFolder(dir));
  EXPECT_EQ(status.checkpoints().resumed_step(), 100u);
  // So does a cluster that a command creates for it.
  proto::Job local = AloneJob("local", kSteps + 20);
  local.set_run_dir("local-run");
  const CommandResult ran =
      RunStrata({"local", "--nodes", "1", "--slots", "1", "--servers", "0", "--job",
                 WriteJob(TestDir(), local), "--resume", dir, "--runs", TestDir()});
  EXPECT_EQ(ran.status.code, 0) << ran.err;
  EXPECT_TRUE(Content(TestDir() + "/local-run/model.safetensors") == Model(status));
  EXPECT_LT(Metrics(TestDir() + "/local-run").size(), 10u) << "it has begun anew";
  proto::Job served = CheckpointedJob("served", 1, kSteps);
  served.set_ranks(1);
  EXPECT_THAT(Failure(served, FromFolder(dir)), HasSubstr("exchange"));
}

}  // namespace

}  // namespace strata::tests
