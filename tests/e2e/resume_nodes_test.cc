// Jobs whose nodes keep state of their own, and rings, go on from their checkpoints.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/checkpointed.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

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
    // That of the end may become whole after the end.
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

// Of the newest checkpoint, an object whose name has that word.
std::string ObjectWith(const std::string& word, const std::string& dir, uint64_t step) {
  const std::string clock = absl::StrFormat("%s/clock-%020d", dir, step);
  for (const auto& entry : std::filesystem::directory_iterator(clock)) {
    if (absl::StrContains(entry.path().filename().string(), word)) return entry.path().string();
  }
  ADD_FAILURE() << "no " << word << " in " << clock;
  return "";
}

void Flip(const std::string& path) {
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
    Flip(ObjectWith(is_ring ? "shard-1" : "node-1", dir, 60));
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
  // Its nodes had two ranks each: they have them again, though one worker has slots for all.
  proto::Job again = CheckpointedJob("again", 0, 60);
  again.mutable_push()->set_codec(proto::Encoding::INT8);
  const proto::JobStatus status = Run(again, FromFolder(TestDir() + "/job"));
  ASSERT_EQ(status.nodes_size(), 2);
  EXPECT_EQ(status.nodes(0).ranks(), 2u);
  EXPECT_EQ(status.nodes(1).ranks(), 2u);
}

}  // namespace
}  // namespace strata::tests
