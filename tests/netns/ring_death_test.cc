// Workers on four hosts that all-reduce, and lose one node after the other while a job trains that
// continues without them.
#include <signal.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSteps = 300;
constexpr int kStepMs = 5;  // at least
constexpr int kNodes = 4;
constexpr uint32_t kRanksPerNode = 2;

class RingDeath : public NetnsTest {
 protected:
  using Harm = std::function<void()>;

  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(cluster_.Start(), absl::OkStatus());
  }

  static proto::Job SomeJob(const std::string& name) {
    proto::Job job = LenetJob(name, kNodes * kRanksPerNode, kRanksPerNode, kSteps);
    job.set_exchange(proto::Job::RING);
    job.set_on_loss(proto::Job::DROP);
    // With more, the few ranks that are left of it make a model that says the same of everything.
    job.mutable_schedule()->set_base_lr(0.005);
    for (int node = 0; node < kNodes; ++node) {
      auto* delay = job.mutable_debug()->add_delays();
      delay->set_node(node);
      delay->set_delay_ms(kStepMs);
    }
    return job;
  }

  // Does the job harm in the midst of training, and each further one once it has gone on after the
  // one before. Each costs it a node.
  proto::JobStatus Run(const proto::Job& job, const std::vector<Harm>& harms) {
    const auto id = cluster_.client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    uint64_t step = 0;
    for (size_t i = 0; i < harms.size(); ++i) {
      const proto::JobStatus before = WaitForStep(*id, step + 10);
      if (before.state() != proto::RUNNING) return before;
      playing_.clear();
      for (const proto::JobNodeStatus& node : before.nodes()) playing_.push_back(node.daemon());
      harms[i]();
      const proto::JobStatus after = cluster_.WaitFor(*id, [&](const proto::JobStatus& status) {
        return status.nodes_changes_size() > static_cast<int>(i) ||
               control::HasEnded(status.state());
      });
      if (after.nodes_changes_size() <= static_cast<int>(i)) return after;
      step = after.nodes_changes(static_cast<int>(i)).step();
    }
    return cluster_.WaitForEnd(*id);
  }
  proto::JobStatus WaitForStep(JobId id, uint64_t step) {
    return cluster_.WaitFor(id, [&](const proto::JobStatus& status) {
      return status.progress().step() >= step || control::HasEnded(status.state());
    });
  }
  void KillWorker(uint32_t node) { cluster_.Kill("worker " + playing_[node]); }

  // The job has made all its steps, has lost so many nodes one after the other, says which, and has
  // one model.
  void ExpectShrunk(const proto::JobStatus& status, int lost) {
    ASSERT_EQ(status.state(), proto::FINISHED) << status.reason() << cluster_.CoordinatorLog();
    EXPECT_EQ(status.progress().step(), kSteps);
    ASSERT_EQ(status.nodes_changes_size(), lost) << status.ShortDebugString();
    std::set<uint32_t> gone;
    for (int i = 0; i < lost; ++i) {
      const proto::NodesChange& change = status.nodes_changes(i);
      ASSERT_EQ(change.left_size(), 1) << change.ShortDebugString();
      EXPECT_TRUE(gone.insert(change.left(0)).second) << change.ShortDebugString();
      EXPECT_TRUE(change.joined().empty());
      EXPECT_EQ(change.ranks(), (kNodes - 1 - i) * kRanksPerNode);
      EXPECT_NE(change.reason(), "");
    }
    ExpectOneModel(status.run_dir(), kNodes, kSteps, gone);
    ExpectMeasured(status.run_dir());
  }
  // Each line once, in order, whoever wrote it; and whoever was first at the end has measured and
  // saved the model.
  static void ExpectMeasured(const std::string& run_dir) {
    uint64_t step = 0;
    for (const nlohmann::json& line : Metrics(run_dir)) {
      EXPECT_GE(line["step"], step);
      step = line["step"];
    }
    EXPECT_EQ(step, kSteps);
    EXPECT_GT(FinalAccuracy(Metrics(run_dir)), 0.5);
    EXPECT_TRUE(std::filesystem::exists(run_dir + "/model.safetensors"));
  }

  NetnsCluster cluster_{{.servers = 0, .nodes = kNodes, .slots = kRanksPerNode}};
  std::vector<std::string> playing_;  // the workers of the job's nodes, before the harm
};

TEST_F(RingDeath, AWorkerThenARankThenAnAggregatorLeaveOneNodeThatEndsTheJob) {
  const proto::JobStatus status = Run(
      SomeJob("each"),
      {[&] { KillWorker(3); }, [&] { KillProcess("rank"); }, [&] { KillProcess("aggregator"); }});
  ExpectShrunk(status, 3);
  ASSERT_EQ(status.nodes_changes_size(), 3);
  EXPECT_THAT(status.nodes_changes(0).left(), ElementsAre(3));
  EXPECT_THAT(status.nodes_changes(0).reason(), HasSubstr("is lost"));
  EXPECT_THAT(status.nodes_changes(1).reason(), HasSubstr("killed by signal 9"));
  EXPECT_THAT(status.nodes_changes(2).reason(), HasSubstr("aggregator"));
}

TEST_F(RingDeath, TheNextNodeTakesOverWhatTheFirstOneDidForAll) {
  const proto::JobStatus status = Run(SomeJob("first"), {[&] { KillWorker(0); }});
  ExpectShrunk(status, 1);
  ASSERT_EQ(status.nodes_changes_size(), 1);
  EXPECT_THAT(status.nodes_changes(0).left(), ElementsAre(0));
}

TEST_F(RingDeath, TwoAtOnceAreDroppedTogetherOrOneAfterTheOther) {
  const proto::JobStatus status = Run(SomeJob("two"), {[&] {
                                        KillWorker(1);
                                        KillWorker(2);
                                      }});
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason() << cluster_.CoordinatorLog();
  std::set<uint32_t> gone;
  for (const proto::NodesChange& change : status.nodes_changes()) {
    gone.insert(change.left().begin(), change.left().end());
  }
  EXPECT_THAT(gone, ElementsAre(1, 2));
  ExpectOneModel(status.run_dir(), kNodes, kSteps, gone);
  ExpectMeasured(status.run_dir());
}

TEST_F(RingDeath, ACoordinatorThatBeginsAgainKnowsWhoWasLost) {
  const auto dies_with_the_coordinator = [&] {
    KillWorker(3);
    cluster_.KillCoordinator();
    ASSERT_EQ(cluster_.StartCoordinator(), absl::OkStatus());
  };
  const proto::JobStatus status =
      Run(SomeJob("restarts"), {dies_with_the_coordinator, [&] { KillWorker(2); }});
  ExpectShrunk(status, 2);
}

TEST_F(RingDeath, WhatIsNoDeathOrLeavesTooFewRanksFailsTheJob) {
  proto::Job wrong = SomeJob("wrong");
  wrong.mutable_debug()->set_nan_rank(5);
  wrong.mutable_debug()->set_nan_step(20);
  const proto::JobStatus nan = Run(wrong, {});
  EXPECT_EQ(nan.state(), proto::FAILED);
  EXPECT_THAT(nan.reason(), HasSubstr("loss is NaN at step 20"));
  EXPECT_TRUE(nan.has_diverged());
  EXPECT_EQ(nan.nodes_changes_size(), 0);

  proto::Job whole = SomeJob("whole");
  whole.set_ranks_min(kNodes * kRanksPerNode);
  const proto::JobStatus few = Run(whole, {[&] { KillWorker(1); }});
  EXPECT_EQ(few.state(), proto::FAILED);
  EXPECT_THAT(few.reason(), HasSubstr("worker " + playing_[1]));
  EXPECT_THAT(few.reason(), HasSubstr("ranks_min"));
  EXPECT_FALSE(few.has_diverged());
}

}  // namespace
}  // namespace strata::tests
