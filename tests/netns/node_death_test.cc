// Workers on several hosts, some of them spare, of which one is killed, or loses a process, or has
// one that stands still, while a job trains on two.
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
using ::testing::MatchesRegex;

constexpr uint64_t kSteps = 100;
constexpr uint64_t kHarmStep = 10;  // that all ranks have finished before
constexpr int kStepMs = 15;         // at least

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
      return status.progress().step() >= kHarmStep || control::HasEnded(status.state());
    });
    EXPECT_EQ(before.state(), proto::RUNNING) << before.reason();
    playing_ = {before.nodes(0).daemon(), before.nodes(1).daemon()};
    harm();
    return cluster_.WaitForEnd(*id);
  }
  // The same with the worker that plays the node.
  proto::JobStatus RunAndKill(const proto::Job& job, int node) {
    return Run(job, [&] { cluster_.Kill("worker " + playing_[node]); });
  }
  // The job has made all its steps, each once, and one node of it was replaced.
  void ExpectReplaced(const proto::JobStatus& status) {
    ASSERT_EQ(status.state(), proto::FINISHED) << status.reason() << cluster_.CoordinatorLog();
    ASSERT_EQ(status.replacements_size(), 1);
    EXPECT_EQ(status.replacements(0).from(), playing_[status.replacements(0).node()]);
    EXPECT_EQ(status.progress().step(), kSteps);
    EXPECT_EQ(status.progress().samples(), kSteps * 4 * 16);
    ExpectEachStepOnce(status.run_dir());
  }
  // Both nodes have the weights of the run of which `expected` are the hashes; that which was
  // replaced from the step on that it continued with. All ranks had finished kHarmStep steps: of
  // the last one a push may not have been received, of those before each has been, for the next
  // step takes the answer.
  static void ExpectWeights(const std::vector<std::string>& expected,
                            const proto::JobStatus& status) {
    ASSERT_EQ(status.replacements_size(), 1);
    const int replaced = static_cast<int>(status.replacements(0).node());
    const uint64_t step = status.replacements(0).step();
    EXPECT_EQ(Hashes(status.run_dir(), 1 - replaced), expected);
    EXPECT_GE(step, kHarmStep - 1);
    ASSERT_LT(step, expected.size());
    EXPECT_EQ(Hashes(status.run_dir(), replaced),
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

  NetnsCluster cluster_{{.servers = 2, .nodes = 4, .slots = 2}};
  std::vector<std::string> playing_;  // the workers of the job's nodes, before the harm
};

TEST_F(NodeDeath, InSyncTheWeightsAreThoseOfAnUndisturbedRun) {
  const proto::JobStatus alone = Run(SomeJob("alone", "sync {}"), [] {});
  const std::vector<std::string> expected = Hashes(alone.run_dir(), 0);
  ASSERT_EQ(expected.size(), kSteps + 1) << alone.reason();
  EXPECT_EQ(alone.replacements_size(), 0);

  // The other ranks and the aggregator of the node end with it, and begin on the same worker.
  const proto::JobStatus rank_died = Run(SomeJob("rank", "sync {}"), [] { KillProcess("rank"); });
  ExpectReplaced(rank_died);
  ExpectWeights(expected, rank_died);
  EXPECT_THAT(rank_died.replacements(0).reason(), HasSubstr("killed by signal 9"));
  EXPECT_EQ(rank_died.replacements(0).from(), rank_died.replacements(0).to());

  // One that stands still is killed, and its node begins on another worker.
  proto::Job hangs = SomeJob("hangs", "sync {}");
  hangs.mutable_replace()->set_hang_after_s(3);
  const proto::JobStatus hung = Run(hangs, [] { KillProcess("rank", SIGSTOP); });
  ExpectReplaced(hung);
  ExpectWeights(expected, hung);
  EXPECT_THAT(hung.replacements(0).reason(),
              MatchesRegex("node [01] \\(ranks [02] to [13]\\) made no progress for [0-9]+ s: all "
                           "waited for its rank [0-3] at step [0-9]+: stopped by a signal"));
  EXPECT_NE(hung.replacements(0).from(), hung.replacements(0).to());

  // A daemon that is killed takes its children along.
  const proto::JobStatus worker_died = RunAndKill(SomeJob("worker", "sync {}"), 1);
  ExpectReplaced(worker_died);
  ExpectWeights(expected, worker_died);
  EXPECT_EQ(worker_died.replacements(0).node(), 1u);
  EXPECT_NE(worker_died.replacements(0).from(), worker_died.replacements(0).to());

  // The node that writes the metrics.
  const proto::JobStatus first_died = RunAndKill(SomeJob("first", "sync {}"), 0);
  ExpectReplaced(first_died);
  ExpectWeights(expected, first_died);
  EXPECT_EQ(first_died.replacements(0).node(), 0u);
}

// Nodes have weights of their own within a round.
TEST_F(NodeDeath, WithLocalStepsTheRoundIsMadeAgainAndTheStateOfItsOptimizerIsLost) {
  proto::Job job = SomeJob("stateless", "lazy { local_steps: 4 }");
  job.mutable_optimizer()->mutable_sgd();
  const proto::JobStatus alone = Run(job, [] {});
  const proto::JobStatus killed = RunAndKill(job, 1);
  ExpectReplaced(killed);
  const std::vector<std::string> expected = Hashes(alone.run_dir(), 1);
  const uint64_t step = killed.replacements(0).step();
  EXPECT_EQ(Hashes(killed.run_dir(), 0), Hashes(alone.run_dir(), 0));
  EXPECT_EQ(step % 4, 0u);
  ASSERT_LT(step, expected.size());
  EXPECT_EQ(Hashes(killed.run_dir(), 1),
            std::vector<std::string>(expected.begin() + step, expected.end()));

  const proto::JobStatus rank_died =
      Run(SomeJob("local", "lazy { local_steps: 4 }"), [] { KillProcess("rank"); });
  ExpectReplaced(rank_died);
  EXPECT_THAT(rank_died.replacements(0).reason(), HasSubstr("its optimizer's state is lost"));
}

TEST_F(NodeDeath, InAsyncTheJobGoesOnAndWithoutReplaceItFails) {
  // The node that dies is much the faster one: it has mostly made all its steps, of which it would
  // have reported the last ones at the job's end.
  proto::Job async = SomeJob("async", "async {}");
  async.mutable_debug()->mutable_delays(0)->set_delay_ms(3 * kStepMs);
  ExpectReplaced(RunAndKill(async, 1));
  proto::Job job = SomeJob("none", "sync {}");
  job.clear_replace();
  const proto::JobStatus killed = RunAndKill(job, 1);
  EXPECT_EQ(killed.state(), proto::FAILED);
  EXPECT_THAT(killed.reason(),
              HasSubstr("worker " + playing_[1] + " (node 1, ranks 2 to 3) is lost"));
}

}  // namespace
}  // namespace strata::tests
