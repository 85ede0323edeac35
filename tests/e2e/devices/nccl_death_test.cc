// Workers whose ranks all-reduce on their GPUs, and lose one node after another while a job trains
// that continues without them; with the fake devices and NCCL, which does not report dead peers.
#include <signal.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/device_jobs.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSteps = 150;
constexpr int kNodes = 3;

class NcclDeath : public testing::Test {
 protected:
  using Harm = std::function<void()>;

  void SetUp() override { ASSERT_EQ(cluster_.Start(), absl::OkStatus()); }

  static proto::Job SomeJob(const std::string& name, const std::string& fields = "") {
    proto::Job job = JobFromText(absl::StrCat(
        "ranks: ", kNodes,
        " ranks_per_node: 1 device: GPU exchange: NCCL on_loss: DROP max_steps: ", kSteps,
        " epochs: 1000 chunk_elements: 4096 model { zoo: 'mlp' } "
        "data { synthetic { height: 8 width: 8 classes: 4 train_samples: 256 test_samples: 64 } "
        "batch_per_rank: 8 } optimizer { momentum_sgd { momentum: 0.9 } } "
        "schedule { base_lr: 0.02 } metrics { every_steps: 10 } debug { hash_weights: true } ",
        fields));
    job.set_name(name);
    for (int node = 0; node < kNodes; ++node) {
      auto* delay = job.mutable_debug()->add_delays();
      delay->set_node(node);
      delay->set_delay_ms(15);
    }
    return job;
  }

  // Causes one fault during training, and each further one when the job has continued after the
  // last. Each costs it a node.
  proto::JobStatus Run(const proto::Job& job, const std::vector<Harm>& harms) {
    const auto id = cluster_.Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    uint64_t step = 0;
    for (int i = 0; i < static_cast<int>(harms.size()); ++i) {
      before_ = cluster_.WaitFor(*id, [&](const proto::JobStatus& now) {
        return now.progress().step() >= step + 10 || control::HasEnded(now.state());
      });
      if (before_.state() != proto::RUNNING) return before_;
      harms[i]();
      const proto::JobStatus after = cluster_.WaitFor(*id, [&](const proto::JobStatus& now) {
        return now.nodes_changes_size() > i || control::HasEnded(now.state());
      });
      if (after.nodes_changes_size() <= i) return after;
      step = after.nodes_changes(i).step();
    }
    return cluster_.WaitForEnd(*id);
  }
  void KillWorkerOf(int node) {
    for (int i = 0; i < kNodes; ++i) {
      if (absl::StrCat("w", i) == before_.nodes(node).daemon()) {
        kill(cluster_.worker(i).process->pid(), SIGKILL);
      }
    }
  }

  // The job has made all its steps, has lost this many nodes one after another, and has one model.
  static void ExpectShrunk(const proto::JobStatus& status, int lost) {
    ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
    EXPECT_EQ(status.progress().step(), kSteps);
    ASSERT_EQ(status.nodes_changes_size(), lost) << status.ShortDebugString();
    std::set<uint32_t> gone;
    for (int i = 0; i < lost; ++i) {
      const proto::NodesChange& change = status.nodes_changes(i);
      ASSERT_EQ(change.left_size(), 1) << change.ShortDebugString();
      EXPECT_TRUE(gone.insert(change.left(0)).second) << change.ShortDebugString();
      EXPECT_EQ(change.ranks(), kNodes - 1 - i);
    }
    ExpectOneModel(status.run_dir(), kNodes, kSteps, gone);
    EXPECT_GE(FinalAccuracy(Metrics(status.run_dir())), 0);
    EXPECT_TRUE(std::filesystem::exists(status.run_dir() + "/model.safetensors"));
  }

  Cluster cluster_{{.servers = 0,
                    .nodes = kNodes,
                    .slots = 1,
                    .worker_args = {"--device-plugin", FakeDevices("devices=4,memory_mb=256"),
                                    "--gpus", "{i}"}}};
  proto::JobStatus before_;  // at the newest fault
};

TEST_F(NcclDeath, ARankThenTheWorkerOfTheFirstNodeLeaveOneNodeThatEndsTheJob) {
  const proto::JobStatus status =
      Run(SomeJob("each"), {[&] { KillProcess("rank"); }, [&] { KillWorkerOf(0); }});
  ExpectShrunk(status, 2);
  ASSERT_EQ(status.nodes_changes_size(), 2);
  EXPECT_THAT(status.nodes_changes(0).reason(), HasSubstr("killed by signal 9"));
  EXPECT_THAT(status.nodes_changes(1).reason(), HasSubstr("is lost"));
}

TEST_F(NcclDeath, TwoAtOnceAreDroppedTogetherOrOneAfterTheOther) {
  const proto::JobStatus status = Run(SomeJob("two"), {[&] {
                                        KillProcess("aggregator");
                                        KillProcess("rank");
                                      }});
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  std::set<uint32_t> gone;
  for (const proto::NodesChange& change : status.nodes_changes()) {
    gone.insert(change.left().begin(), change.left().end());
  }
  EXPECT_FALSE(gone.empty());
  ExpectOneModel(status.run_dir(), kNodes, kSteps, gone);
}

TEST_F(NcclDeath, AnErrorIsNoDeathAndFailsTheJob) {
  proto::Job wrong = SomeJob("wrong");
  wrong.mutable_debug()->set_nan_rank(1);
  wrong.mutable_debug()->set_nan_step(20);
  const proto::JobStatus status = Run(wrong, {});
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("loss is NaN at step 20"));
  EXPECT_EQ(status.nodes_changes_size(), 0);
}

}  // namespace
}  // namespace strata::tests
