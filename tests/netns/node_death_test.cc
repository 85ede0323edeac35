// Workers on three hosts, one of them spare, of which one is killed while a job trains on two.
#include <signal.h>

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 150;
constexpr int kStepMs = 15;  // at least

class NodeDeath : public NetnsTest {
 protected:
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(cluster_.Start(), absl::OkStatus());
  }

  static proto::Job SomeJob(const std::string& name, const std::string& consistency) {
    proto::Job job = LenetJob(name, 4, 2, kSteps, consistency);
    job.mutable_replace()->set_per_hour(3);
    auto* delay = job.mutable_debug()->add_delays();
    delay->set_node(0);
    delay->set_delay_ms(kStepMs);
    return job;
  }

  // Does `harm` in the midst of training.
  proto::JobStatus Run(const proto::Job& job, const std::function<void()>& harm) {
    const auto id = cluster_.client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    const proto::JobStatus before = cluster_.WaitFor(*id, [](const proto::JobStatus& status) {
      return status.progress().step() >= 40 || control::HasEnded(status.state());
    });
    EXPECT_EQ(before.state(), proto::RUNNING) << before.reason();
    harm();
    return cluster_.WaitForEnd(*id);
  }
  // The node that was begun again hashes from the step on that it went on with. Its ranks had
  // finished 40: of the last one a push may not have been received yet, of those before each has
  // been, for the next step takes the answer.
  static void ExpectEndOf(const std::vector<std::string>& expected,
                          const proto::JobStatus& killed) {
    ASSERT_EQ(killed.replacements_size(), 1);
    const uint64_t step = killed.replacements(0).step();
    EXPECT_GE(step, 39u);
    ASSERT_LT(step, expected.size());
    EXPECT_EQ(Hashes(killed.run_dir(), static_cast<int>(killed.replacements(0).node())),
              std::vector<std::string>(expected.begin() + step, expected.end()));
  }
  // Four ranks with 16 samples in each step.
  static void ExpectEachStepOnce(const std::string& run_dir) {
    uint64_t step = 0;
    for (const nlohmann::json& line : Metrics(run_dir)) {
      const uint64_t end = line["step"];
      EXPECT_GE(end, step);
      if (line["samples"] != 0) {
        EXPECT_EQ(line["samples"], end * 4 * 16);
      }
      step = end;
    }
    EXPECT_EQ(step, kSteps);
  }

  NetnsCluster cluster_{{.servers = 2, .nodes = 3, .slots = 2}};
};

TEST_F(NodeDeath, InSyncTheWeightsAreThoseOfAnUndisturbedRun) {
  const proto::JobStatus alone = Run(SomeJob("alone", "sync {}"), [] {});
  const std::vector<std::string> expected = Hashes(alone.run_dir(), 0);
  ASSERT_EQ(expected.size(), kSteps + 1u) << alone.reason();
  EXPECT_EQ(alone.replacements_size(), 0);

  // The other ranks and the aggregator of the node end with it, and begin on the same worker.
  const proto::JobStatus rank_died =
      Run(SomeJob("rank", "sync {}"), [] { kill(ListProcesses("rank").back(), SIGKILL); });
  ASSERT_EQ(rank_died.state(), proto::FINISHED) << rank_died.reason() << cluster_.CoordinatorLog();
  ASSERT_EQ(rank_died.replacements_size(), 1);
  const int died = static_cast<int>(rank_died.replacements(0).node());
  EXPECT_THAT(rank_died.replacements(0).reason(), HasSubstr("killed by signal 9"));
  EXPECT_EQ(rank_died.replacements(0).from(), rank_died.replacements(0).to());
  EXPECT_EQ(Hashes(rank_died.run_dir(), 1 - died), expected);
  ExpectEndOf(expected, rank_died);
  ExpectEachStepOnce(rank_died.run_dir());

  // A daemon that is killed takes its children along.
  const proto::JobStatus worker_died =
      Run(SomeJob("worker", "sync {}"), [this] { cluster_.Kill("worker w1"); });
  ASSERT_EQ(worker_died.state(), proto::FINISHED)
      << worker_died.reason() << cluster_.CoordinatorLog();
  ASSERT_EQ(worker_died.replacements_size(), 1);
  EXPECT_EQ(worker_died.replacements(0).from(), "w1");
  EXPECT_EQ(worker_died.replacements(0).to(), "w2");
  EXPECT_EQ(Hashes(worker_died.run_dir(), 0), expected);
  ExpectEndOf(expected, worker_died);
}

TEST_F(NodeDeath, TheNodeThatWritesTheMetricsMayDie) {
  const proto::JobStatus killed =
      Run(SomeJob("first", "sync {}"), [this] { cluster_.Kill("worker w0"); });
  ASSERT_EQ(killed.state(), proto::FINISHED) << killed.reason() << cluster_.CoordinatorLog();
  EXPECT_EQ(killed.nodes(0).daemon(), "w2");
  ExpectEachStepOnce(killed.run_dir());
}

TEST_F(NodeDeath, InAsyncTheJobGoesOn) {
  const proto::JobStatus killed =
      Run(SomeJob("async", "async {}"), [this] { cluster_.Kill("worker w1"); });
  EXPECT_EQ(killed.state(), proto::FINISHED) << killed.reason() << cluster_.CoordinatorLog();
  EXPECT_EQ(killed.replacements_size(), 1);
  EXPECT_EQ(killed.progress().step(), kSteps);
  EXPECT_EQ(killed.progress().samples(), kSteps * 4 * 16);
  ExpectEachStepOnce(killed.run_dir());
}

TEST_F(NodeDeath, WithoutReplaceTheJobFails) {
  proto::Job job = SomeJob("none", "sync {}");
  job.clear_replace();
  const proto::JobStatus killed = Run(job, [this] { cluster_.Kill("worker w1"); });
  EXPECT_EQ(killed.state(), proto::FAILED);
  EXPECT_THAT(killed.reason(), HasSubstr("worker w1 (node 1, ranks 2 to 3) is lost"));
}

}  // namespace
}  // namespace strata::tests
