// Where chunks live on real hosts: what crosses each link is what the placement says.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

using ::testing::StartsWith;

constexpr int kNodes = 3;
constexpr int kSteps = 200;
// Headers of frames and packets, the control plane, the first weights and the last.
constexpr double kBesides = 1.15;

// A server on each of three worker nodes, and one beside the coordinator.
class PlacementOnHosts : public NetnsTest {
 protected:
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(cluster_.StartHead(), absl::OkStatus());
    ASSERT_EQ(cluster_.StartServer("head", "d"), absl::OkStatus());
    for (int i = 0; i < kNodes; ++i) {
      ASSERT_EQ(cluster_.StartServer(absl::StrCat("w", i), absl::StrCat("s", i)), absl::OkStatus());
      ASSERT_EQ(cluster_.StartWorker(i), absl::OkStatus());
    }
  }

  // Runs a job and notes what crossed each host's link each way in a step, in models.
  proto::JobStatus Run(proto::Job::Placement placement) {
    proto::Job job = LenetJob(proto::Job::Placement_Name(placement), kNodes, 1, kSteps);
    job.set_placement(placement);
    job.set_chunk_elements(1024);
    std::map<std::string, Network::Traffic> before;
    for (const std::string& host : hosts_) before[host] = cluster_.network().TrafficOf(host);
    const auto id = cluster_.client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    const proto::JobStatus status = cluster_.WaitForEnd(*id);
    EXPECT_EQ(status.state(), proto::FINISHED) << status.reason() << cluster_.CoordinatorLog();
    const double models = kSteps * 4.0 * status.elements();
    for (const std::string& host : hosts_) {
      const Network::Traffic after = cluster_.network().TrafficOf(host);
      sent_[host] = (after.sent_bytes - before[host].sent_bytes) / models;
      received_[host] = (after.received_bytes - before[host].received_bytes) / models;
    }
    return status;
  }

  void ExpectLoad(const std::string& host, double load) {
    for (const double moved : {sent_[host], received_[host]}) {
      EXPECT_GE(moved, load) << host;
      EXPECT_LE(moved, load * kBesides + 0.02) << host;
    }
  }

  const std::vector<std::string> hosts_ = {"head", "w0", "w1", "w2"};
  std::map<std::string, double> sent_, received_;
  NetnsCluster cluster_{{.servers = 0, .nodes = kNodes, .slots = 1}};
};

TEST_F(PlacementOnHosts, AutoMixesServersSoThatAllLinksCarryTheSame) {
  const proto::JobStatus status = Run(proto::Job::AUTO);
  EXPECT_THAT(status.placement(), StartsWith("MIXED (AUTO): 1 host without nodes holds 40.0 %, "
                                             "3 hosts with nodes hold 20.0 % each: "));
  // 61 chunks: 24, 13, 12 and 12; of a node's own, no byte crosses a link.
  for (const std::string& host : hosts_) ExpectLoad(host, 1.2 - 0.03);
}

TEST_F(PlacementOnHosts, EveryPlacementTrainsTheSameBits) {
  const proto::JobStatus dedicated = Run(proto::Job::DEDICATED);
  ExpectLoad("head", 3);
  for (const char* host : {"w0", "w1", "w2"}) ExpectLoad(host, 1);
  const proto::JobStatus on_workers = Run(proto::Job::ON_WORKERS);
  EXPECT_LT(sent_["head"] + received_["head"], 0.05);
  for (const char* host : {"w0", "w1", "w2"}) ExpectLoad(host, 4.0 / 3 - 0.03);
  const proto::JobStatus mixed = Run(proto::Job::MIXED);
  EXPECT_EQ(Hashes(dedicated.run_dir(), 0).size(), kSteps + 1u);
  EXPECT_EQ(Hashes(on_workers.run_dir(), 0), Hashes(dedicated.run_dir(), 0));
  EXPECT_EQ(Hashes(mixed.run_dir(), 0), Hashes(dedicated.run_dir(), 0));
}

}  // namespace
}  // namespace strata::tests
