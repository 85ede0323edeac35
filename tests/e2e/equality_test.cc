// The equalities of docs/semantics.md, bit for bit: the hash of all weights before every step.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

constexpr int kSteps = 25;

// Hashes of node 0, checked to be those of every other node, too.
std::vector<std::string> HashesOfAllNodes(const proto::JobStatus& status) {
  std::vector<std::string> first = Hashes(status.run_dir(), 0);
  EXPECT_EQ(first.size(), kSteps + 1u) << status.run_dir();
  for (int node = 1; node < status.nodes_size(); ++node) {
    EXPECT_EQ(Hashes(status.run_dir(), node), first) << "node " << node << " of " << status.name();
  }
  return first;
}

// Chunks were spread over every shard, and were sent while backward was still running.
void ExpectSpreadAndOverlapped(Cluster& cluster, const proto::JobStatus& finished, int shards) {
  uint64_t nodes = finished.nodes_size();
  uint64_t expected = 61 * nodes * kSteps;
  // The servers' last counts arrive just after the job's end.
  proto::JobStatus status =
      cluster.WaitFor(JobId(finished.job_id()), [expected](const proto::JobStatus& now) {
        uint64_t pushes = 0;
        for (const auto& shard : now.shards()) pushes += shard.counters().pushes();
        return pushes >= expected;
      });
  EXPECT_EQ(status.chunks(), 61u);
  ASSERT_EQ(status.shards_size(), shards);
  for (const auto& shard : status.shards()) {
    EXPECT_GE(shard.chunks(), 15u);
    EXPECT_EQ(shard.counters().pushes(), shard.chunks() * nodes * kSteps)
        << shard.daemon() << " shard " << shard.shard();
  }
  auto metrics = Metrics(status.run_dir());
  EXPECT_EQ(SumField(metrics, "pushes"), expected);
  EXPECT_GT(SumField(metrics, "pushes_during_backward"), 0u);
  EXPECT_LT(SumField(metrics, "pushes_during_backward"), expected);
}

// Fresh clusters of the given servers and shards; 4 slots on each of 4 nodes.
std::vector<std::string> HashesOn(int servers, int shards, const proto::Job& job) {
  Cluster cluster({servers, shards, 4, 4});
  EXPECT_TRUE(cluster.Start().ok());
  proto::JobStatus status = cluster.RunToEnd(job);
  return HashesOfAllNodes(status);
}

TEST(Equality, SyncIsTheSameOverFourNodesTwoNodesAndOne) {
  Cluster cluster({2, 2, 4, 4});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  std::vector<std::string> reference;
  for (int ranks_per_node : {1, 2, 4}) {
    proto::Job job =
        LenetJob("layout-" + std::to_string(ranks_per_node), 4, ranks_per_node, kSteps);
    proto::JobStatus status = cluster.RunToEnd(job);
    ASSERT_EQ(status.nodes_size(), 4 / ranks_per_node);
    std::vector<std::string> hashes = HashesOfAllNodes(status);
    ExpectSpreadAndOverlapped(cluster, status, 4);
    if (reference.empty()) reference = hashes;
    EXPECT_EQ(hashes, reference) << ranks_per_node << " ranks per node";
  }
  // Weights do change: no two steps begin with the same ones.
  for (size_t i = 2; i + 1 < reference.size(); ++i) {
    EXPECT_NE(reference[i].substr(reference[i].find(' ')),
              reference[i - 1].substr(reference[i - 1].find(' ')));
  }
}

TEST(Equality, SyncIsTheSameForEveryWindowAndLazyWithoutStalenessIsSync) {
  Cluster cluster({2, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("window-4", 4, 2, kSteps);
  std::vector<std::string> reference = HashesOfAllNodes(cluster.RunToEnd(job));
  job.set_name("window-2");
  job.set_window(2);
  proto::JobStatus status = cluster.RunToEnd(job);
  EXPECT_EQ(HashesOfAllNodes(status), reference);
  ExpectSpreadAndOverlapped(cluster, status, 4);
  proto::Job lazy = LenetJob("lazy-0", 4, 2, kSteps, "lazy { staleness: 0 }");
  EXPECT_EQ(HashesOfAllNodes(cluster.RunToEnd(lazy)), reference);
  // A different seed gives different weights: the hashes depend on the training.
  job.set_name("other-seed");
  job.set_seed(2);
  EXPECT_NE(HashesOfAllNodes(cluster.RunToEnd(job)), reference);
}

TEST(Equality, SyncIsTheSameForOneAndTwoServersOfOneAndTwoShards) {
  proto::Job job = LenetJob("servers", 4, 2, kSteps);
  std::vector<std::string> reference = HashesOn(1, 1, job);
  EXPECT_EQ(HashesOn(1, 2, job), reference);
  EXPECT_EQ(HashesOn(2, 1, job), reference);
  EXPECT_EQ(HashesOn(2, 2, job), reference);
}

TEST(Equality, TheNumberOfConnectionsBetweenTwoPeersDoesNotShow) {
  Cluster cluster({2, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("one-connection", 4, 2, kSteps);
  job.set_same_host(proto::Job::TCP);
  const std::vector<std::string> reference = HashesOfAllNodes(cluster.RunToEnd(job));
  job.set_name("three-connections");
  job.set_connections(3);
  const proto::JobStatus status = cluster.RunToEnd(job);
  EXPECT_EQ(HashesOfAllNodes(status), reference);
  EXPECT_EQ(status.job().connections(), 3u);
  job.set_name("ring");
  job.set_exchange(proto::Job::RING);
  EXPECT_EQ(HashesOfAllNodes(cluster.RunToEnd(job)), reference) << "of two nodes, the same order";
}

TEST(Equality, OneRankThroughTheClusterIsTheTrainerWithNoExchange) {
  Cluster cluster({2, 2, 1, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("through-the-cluster", 1, 1, kSteps);
  proto::JobStatus through = cluster.RunToEnd(job);
  job.set_name("no-exchange");
  job.set_exchange(proto::Job::NONE);
  proto::JobStatus alone = cluster.RunToEnd(job);
  EXPECT_EQ(HashesOfAllNodes(through), HashesOfAllNodes(alone));
  EXPECT_EQ(alone.shards_size(), 0);
}

}  // namespace
}  // namespace strata::tests
