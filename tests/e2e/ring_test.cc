// exchange: RING on a cluster of real processes.
#include <signal.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using proto::Addition;
using proto::AllReduce;
using testing::HasSubstr;

constexpr int kSteps = 20;

proto::Job RingJob(const std::string& name, int ranks_per_node, AllReduce::Algorithm algorithm) {
  proto::Job job = LenetJob(name, 4, ranks_per_node, kSteps);
  job.set_exchange(proto::Job::RING);
  job.mutable_all_reduce()->set_algorithm(algorithm);
  return job;
}

// Hashes of node 0, checked to be those of every other node, too.
std::vector<std::string> HashesOfAllNodes(const proto::JobStatus& status) {
  std::vector<std::string> first = Hashes(status.run_dir(), 0);
  EXPECT_EQ(first.size(), kSteps + 1u) << status.run_dir();
  for (int node = 1; node < status.nodes_size(); ++node) {
    EXPECT_EQ(Hashes(status.run_dir(), node), first) << "node " << node << " of " << status.name();
  }
  return first;
}

TEST(Ring, HasTheBitsOfServersThatAddInItsOrder) {
  Cluster cluster({2, 2, 4, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto ring = HashesOfAllNodes(cluster.RunToEnd(RingJob("ring", 1, AllReduce::RING)));
  proto::Job servers = LenetJob("order-ring", 4, 1, kSteps);
  servers.set_order(Addition::RING);
  EXPECT_EQ(HashesOfAllNodes(cluster.RunToEnd(servers)), ring);
  // Halving and doubling adds along the tree that servers use by default.
  const auto halving =
      HashesOfAllNodes(cluster.RunToEnd(RingJob("halving", 1, AllReduce::HALVING_DOUBLING)));
  EXPECT_EQ(HashesOfAllNodes(cluster.RunToEnd(LenetJob("order-tree", 4, 1, kSteps))), halving);
  EXPECT_NE(halving, ring) << "the job does not tell orders apart";
}

TEST(Ring, OfNodesWithSeveralRanksEachAddsThemFirst) {
  Cluster cluster({1, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const proto::JobStatus status = cluster.RunToEnd(RingJob("hybrid", 2, AllReduce::RING));
  ASSERT_EQ(status.nodes_size(), 2);
  EXPECT_EQ(status.exchange(), "RING");
  EXPECT_EQ(status.shards_size(), 0);
  // With two nodes both orders are the same.
  EXPECT_EQ(HashesOfAllNodes(status),
            HashesOfAllNodes(cluster.RunToEnd(LenetJob("servers", 4, 2, kSteps))));
  // 2 (n - 1) / n of the arena a step from each node, and little else.
  const auto metrics = Metrics(status.run_dir());
  const double sent = static_cast<double>(SumField(metrics, "bytes_pushed")) +
                      static_cast<double>(SumField(metrics, "bytes_answered"));
  const double least = 2.0 * 0.5 * 2 * static_cast<double>(status.elements()) * 4 * kSteps;
  EXPECT_GE(sent, least);
  EXPECT_LE(sent, least * 1.15) << "chunks of 4 KiB, headers of 128 bytes";
}

TEST(Ring, ChoosesByWhatItMeasuresAndWritesItDown) {
  Cluster cluster({1, 1, 3, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = RingJob("auto", 1, AllReduce::AUTO);
  job.set_ranks(3);
  const proto::JobStatus status = cluster.RunToEnd(job);
  const AllReduce::Algorithm chosen = status.job().all_reduce().algorithm();
  EXPECT_TRUE(chosen == AllReduce::RING || chosen == AllReduce::HALVING_DOUBLING) << chosen;
  // With the algorithm that it had chosen, it has the same bits.
  job.set_name("again");
  job.mutable_all_reduce()->set_algorithm(chosen);
  EXPECT_EQ(HashesOfAllNodes(cluster.RunToEnd(job)), HashesOfAllNodes(status));
}

TEST(Ring, ANodeThatDiesFailsTheJobInTimeAndIsNamed) {
  Cluster cluster({1, 1, 3, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const bool whole_worker : {false, true}) {
    proto::Job job = RingJob("victim", 1, AllReduce::RING);
    job.set_ranks(3);
    job.set_max_steps(10'000'000);
    const auto id = cluster.Submit(job);
    ASSERT_TRUE(id.ok()) << id.status();
    ASSERT_EQ(cluster.WaitForStep(*id, 1).state(), proto::RUNNING);
    if (whole_worker) {
      cluster.worker(1).process->Signal(SIGKILL);
    } else {
      kill(ListProcesses("aggregator").front(), SIGKILL);
    }
    // No longer than a worker may be silent, plus a margin for a busy machine.
    const proto::JobStatus status = cluster.WaitForEnd(*id, absl::Seconds(40));
    EXPECT_EQ(status.state(), proto::FAILED);
    EXPECT_THAT(status.reason(), HasSubstr(whole_worker ? "worker w1" : "killed by signal 9"));
    EXPECT_TRUE(WaitUntil([] { return ListProcesses("aggregator").empty(); }));
  }
  ASSERT_EQ(cluster.StartWorker(1), absl::OkStatus());
  proto::Job next = RingJob("next", 1, AllReduce::RING);
  next.set_ranks(3);
  cluster.RunToEnd(next);
}

TEST(Ring, KeepsToThePortsThatItIsGiven) {
  Cluster::Options options{1, 1, 2, 2};
  options.worker_args = {"--peer-port", "21500-21501"};
  Cluster cluster(options);
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  cluster.RunToEnd(RingJob("given", 2, AllReduce::RING));
  proto::Job job = RingJob("held", 1, AllReduce::RING);
  job.set_ranks(2);
  job.set_max_steps(10'000'000);
  const auto held = cluster.Submit(job);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ(cluster.WaitForStep(*held, 1).state(), proto::RUNNING);
  const auto beyond = cluster.Submit(job);
  ASSERT_TRUE(beyond.ok()) << beyond.status();
  const proto::JobStatus status = cluster.WaitForEnd(*beyond);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("no port from 21500 to 21501 of 127.0.0.1 is free for the "
                                         "other nodes (--peer-port)"));
}

TEST(Ring, OfOneNodeIsRefusedInOneLine) {
  Cluster cluster({1, 1, 1, 4});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto id = cluster.Submit(RingJob("alone", 4, AllReduce::RING));
  ASSERT_TRUE(id.ok()) << id.status();
  const proto::JobStatus status = cluster.WaitForEnd(*id);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_EQ(status.reason(),
            "exchange: RING needs two nodes, but all 4 ranks are on worker w0: set ranks_per_node, "
            "or use PARAMETER_SERVER");
}

}  // namespace
}  // namespace strata::tests
