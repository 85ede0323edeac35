// Workers on four hosts, of which one comes later, one is drained and comes back, and one is told
// to end, or is killed, while a job trains whose nodes may join and leave.
#include <signal.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

using ::testing::ElementsAre;

constexpr int kSteps = 800;
constexpr int kStepMs = 15;  // at least
constexpr uint64_t kBatch = 8;

class Elastic : public NetnsTest {
 protected:
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    NetnsCluster::LetUsersOperate();
    ASSERT_EQ(cluster_.StartHead(), absl::OkStatus());
    for (const char* server : {"s0", "s1"}) {
      ASSERT_EQ(cluster_.StartServer("head", server), absl::OkStatus());
    }
    for (int i = 0; i < 2; ++i) StartWorker(i);
  }
  void StartWorker(int i) {
    ASSERT_EQ(cluster_.StartWorker(i, {"--notice", "60"}), absl::OkStatus());
  }
  // Nodes of two ranks: 2 to begin with, 1 at least, 3 at most.
  static proto::Job SomeJob(const std::string& name, const std::string& consistency) {
    proto::Job job = LenetJob(name, 4, 2, kSteps, consistency);
    job.mutable_data()->set_batch_per_rank(kBatch);
    job.mutable_schedule()->set_base_lr(0.005);  // small batches do not take more
    job.set_ranks_min(2);
    job.set_ranks_max(6);
    for (const int node : {0, 1, 2}) {
      auto* delay = job.mutable_debug()->add_delays();
      delay->set_node(node);
      delay->set_delay_ms(kStepMs);
    }
    return job;
  }
  // Waits until so many changes are made, and the job has come some steps past the last of them.
  proto::JobStatus WaitForChanges(JobId id, int count) {
    return cluster_.WaitFor(id, [&](const proto::JobStatus& status) {
      const bool made = status.nodes_changes_size() >= count &&
                        status.progress().step() > status.nodes_changes(count - 1).step() + 10;
      return made || control::HasEnded(status.state());
    });
  }

  // One worker joins, the first one leaves and returns, and one is told to end.
  proto::JobStatus Run(const proto::Job& job) {
    const auto id = cluster_.client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    cluster_.WaitFor(*id, [](const proto::JobStatus& status) {
      return status.progress().step() >= 10 || control::HasEnded(status.state());
    });
    StartWorker(2);
    WaitForChanges(*id, 1);
    cluster_.Drain("w0", proto::DrainRequest::DRAIN);
    WaitForChanges(*id, 2);
    cluster_.Drain("w0", proto::DrainRequest::UNDO);
    WaitForChanges(*id, 3);
    cluster_.Signal("worker w1", SIGTERM);
    EXPECT_TRUE(cluster_.WaitForExit("worker w1")) << "within its notice";
    return cluster_.WaitForEnd(*id);
  }

  // Returns the samples that the job's steps must have used, given its changes.
  static uint64_t ExpectedSamples(const proto::JobStatus& status, int steps = kSteps) {
    uint64_t samples = 0, from = 0, ranks = 4;
    for (const proto::NodesChange& change : status.nodes_changes()) {
      samples += (change.step() - from) * ranks * kBatch;
      from = change.step();
      ranks = change.ranks();
    }
    return samples + (steps - from) * ranks * kBatch;
  }

  NetnsCluster cluster_{{.servers = 0, .nodes = 3, .slots = 2}};
};

void ExpectChanges(const proto::JobStatus& status) {
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  ASSERT_EQ(status.nodes_changes_size(), 4) << status.ShortDebugString();
  EXPECT_THAT(status.nodes_changes(0).joined(), ElementsAre(2));
  EXPECT_THAT(status.nodes_changes(1).left(), ElementsAre(0));
  EXPECT_EQ(status.nodes_changes(1).reason(), "worker w0 is being drained");
  EXPECT_THAT(status.nodes_changes(2).joined(), ElementsAre(0));
  EXPECT_THAT(status.nodes_changes(3).left(), ElementsAre(1));
  EXPECT_EQ(status.progress().step(), kSteps);
}

// By step, of all nodes; each node's file begins with its first step, and ends with the final
// weights if it has not left.
void ExpectOneModel(const std::string& run_dir, int nodes = 3, int steps = kSteps) {
  std::map<std::string, std::string> hashes;
  for (int node = 0; node < nodes; ++node) {
    const std::vector<std::string> lines = Hashes(run_dir, node);
    EXPECT_FALSE(lines.empty()) << node;
    for (const std::string& line : lines) {
      const std::vector<std::string> parts = absl::StrSplit(line, ' ');
      ASSERT_EQ(parts.size(), 2) << line;
      const auto [known, is_new] = hashes.try_emplace(parts[0], parts[1]);
      EXPECT_EQ(known->second, parts[1]) << "node " << node << ", step " << parts[0];
    }
  }
  EXPECT_TRUE(hashes.contains("final"));
  EXPECT_GE(hashes.size(), static_cast<size_t>(steps));
}

TEST_F(Elastic, InSyncAllNodesHaveOneModelWhoeverComesAndGoes) {
  const proto::JobStatus status = Run(SomeJob("sync", "sync {}"));
  ExpectChanges(status);
  ExpectOneModel(status.run_dir());
  EXPECT_EQ(status.progress().samples(), ExpectedSamples(status));
  uint64_t step = 0;
  for (const nlohmann::json& line : Metrics(status.run_dir())) {
    EXPECT_GE(line["step"], step) << "each line once, in order";
    step = line["step"];
  }
  EXPECT_EQ(step, kSteps);
  EXPECT_GT(FinalAccuracy(Metrics(status.run_dir())), 0.5);
}

TEST_F(Elastic, InAsyncToo) {
  const proto::JobStatus status = Run(SomeJob("async", "async {}"));
  ExpectChanges(status);
  EXPECT_EQ(status.progress().samples(), ExpectedSamples(status));
  EXPECT_GE(FinalAccuracy(Metrics(status.run_dir())), 0) << "it is measured";
}

// The one that is killed made its last steps again where the other one stands in, and left with the
// next one: so all of them have the weights of a job whose node left by plan.
TEST_F(Elastic, WhereAWorkerStandsInForOneThatIsKilledTheJobGoesOnWithoutItsNode) {
  constexpr int kFewSteps = 300;
  ASSERT_EQ(cluster_.StartWorker(2, {"--stand-in"}), absl::OkStatus());
  proto::Job job = SomeJob("stand-in", "sync {}");
  job.set_max_steps(kFewSteps);
  job.mutable_replace()->set_per_hour(3);
  const auto id = cluster_.client().Submit(job);
  ASSERT_TRUE(id.ok()) << id.status();
  cluster_.WaitFor(*id, [](const proto::JobStatus& status) {
    return status.progress().step() >= 10 || control::HasEnded(status.state());
  });
  cluster_.Kill("worker w1");
  WaitForChanges(*id, 1);
  const auto nodes = cluster_.client().ListNodes();
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  for (const proto::DaemonStatus& daemon : nodes->daemons()) {
    EXPECT_EQ(daemon.stands_in(), daemon.name() == "w2") << daemon.name();
  }
  const proto::JobStatus status = cluster_.WaitForEnd(*id);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason() << cluster_.CoordinatorLog();
  ASSERT_EQ(status.replacements_size(), 1);
  EXPECT_EQ(status.replacements(0).from(), "w1");
  EXPECT_EQ(status.replacements(0).to(), "w2");
  ASSERT_EQ(status.nodes_changes_size(), 1) << status.ShortDebugString();
  EXPECT_THAT(status.nodes_changes(0).left(), ElementsAre(1));
  EXPECT_EQ(status.nodes_changes(0).reason(), "worker w2 only stands in");
  EXPECT_GE(status.nodes_changes(0).step(), status.replacements(0).step());
  EXPECT_EQ(status.progress().step(), kFewSteps);
  EXPECT_EQ(status.progress().samples(), ExpectedSamples(status, kFewSteps));
  ExpectOneModel(status.run_dir(), /*nodes=*/2, kFewSteps);
}

}  // namespace
}  // namespace strata::tests
