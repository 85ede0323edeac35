// Which servers hold a job's chunks, by events.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Message = proto::CoordinatorMessage;

// Workers w1 and w2, w3 with servers s1, s2, s3 beside them, and d on a host of its own.
class CorePlace : public testing::Test {
 protected:
  void JoinAll() {
    for (const std::string i : {"1", "2", "3"}) {
      cluster_.SetHost("w" + i, "host" + i);
      cluster_.SetHost("s" + i, "host" + i);
      cluster_.JoinWorker("w" + i, 1);
      cluster_.JoinServer("s" + i, 1);
    }
    JoinDedicated();
  }
  void JoinDedicated() {
    cluster_.SetHost("d", "host4");
    cluster_.JoinServer("d", 1);
  }

  // All nodes are ready: the servers hear of it.
  uint32_t Install(proto::Job::Placement placement) {
    proto::Job job = CoreHarness::SomeJob(3);
    job.set_placement(placement);
    job.set_chunk_elements(256);
    return InstallJob(job);
  }
  uint32_t InstallJob(const proto::Job& job) {
    const uint32_t id = cluster_.Submit(job);
    for (const char* worker : {"w1", "w2", "w3"}) {
      proto::NodeReady ready = CoreHarness::SomeLayout(id);
      ready.mutable_layout()->set_elements(12 * 256);
      ready.mutable_layout()->mutable_segments(0)->set_shape(0, 12 * 256);
      cluster_.Ready(worker, ready);
    }
    return id;
  }

  // "s1:5 d:7"
  std::string ChunksOf(uint32_t job) {
    std::string text;
    const proto::JobStatus status = cluster_.Status(job);
    for (const auto& shard : status.shards()) {
      text += (text.empty() ? "" : " ") + shard.daemon() + ":" + std::to_string(shard.chunks());
    }
    return text;
  }

  CoreHarness cluster_;
};

TEST_F(CorePlace, AutoSpreadsTheLoadOverAllLinksAndSaysSoInStatusAndRecord) {
  JoinAll();
  const uint32_t job = Install(proto::Job::AUTO);
  // D = 9 + 3 - 2 = 10: 2 / 10 on each node's host, 4 / 10 on the other.
  EXPECT_EQ(ChunksOf(job), "s1:3 s2:2 s3:2 d:5");
  EXPECT_THAT(cluster_.Status(job).placement(),
              StartsWith("MIXED (AUTO): 1 host without nodes holds 40.0 %, 3 hosts with nodes hold "
                         "20.0 % each: at most 1.20 x the model crosses a link"));
  const proto::JobRecord record = cluster_.Newest("d", Message::kInstallJob).install_job().record();
  EXPECT_EQ(record.placement().reason(), cluster_.Status(job).placement());
  EXPECT_EQ(record.job().placement(), proto::Job::AUTO);
}

TEST_F(CorePlace, OnlyTheServersThatAJobsPlacementNamesHearOfIt) {
  JoinAll();
  const uint32_t job = Install(proto::Job::DEDICATED);
  EXPECT_EQ(ChunksOf(job), "d:12");
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("Registered"));
  EXPECT_THAT(cluster_.Sent("d"), ElementsAre("Registered", "InstallJob 1"));
  cluster_.Installed("d", job);
  cluster_.Disconnect("s1");
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);  // none of its servers is lost
}

TEST_F(CorePlace, OnWorkersLeavesOutTheOtherHosts) {
  JoinAll();
  EXPECT_EQ(ChunksOf(Install(proto::Job::ON_WORKERS)), "s1:4 s2:4 s3:4");
}

TEST_F(CorePlace, LinkRatesWeighTheShares) {
  for (const char* name : {"w1", "w2", "w3"}) cluster_.SetHost(name, name, 100e9);
  for (const char* name : {"w1", "w2", "w3"}) cluster_.JoinWorker(name, 1);
  cluster_.SetHost("slow", "a", 1e9);
  cluster_.SetHost("fast", "b", 3e9);
  for (const char* name : {"slow", "fast"}) cluster_.JoinServer(name, 1);
  EXPECT_EQ(ChunksOf(Install(proto::Job::AUTO)), "slow:3 fast:9");
}

TEST_F(CorePlace, AServerThatFitsIsWaitedForAndThenTheJobFailsInOneLine) {
  for (const char* i : {"1", "2", "3"}) {
    cluster_.SetHost(std::string("w") + i, std::string("host") + i);
    cluster_.JoinWorker(std::string("w") + i, 1);
  }
  cluster_.SetHost("s1", "host1");
  cluster_.JoinServer("s1", 1);
  const uint32_t waits = Install(proto::Job::DEDICATED);
  const std::string reason =
      "placement: DEDICATED needs a server on a host without a node of the job; those that all "
      "nodes reach (s1) run one";
  EXPECT_EQ(cluster_.Status(waits).state(), proto::RUNNING);
  EXPECT_EQ(cluster_.Status(waits).reason(), reason);
  cluster_.Advance(absl::Seconds(9));
  JoinDedicated();
  EXPECT_EQ(ChunksOf(waits), "d:12");
  ASSERT_TRUE(cluster_.core().Cancel(JobId(waits), cluster_.now()).ok());

  // The one that would do is not reached by all.
  cluster_.SetReach("w2", "tcp://host:5000", "no route");
  cluster_.Disconnect("d");
  cluster_.Advance(absl::Seconds(3));
  cluster_.SetReach("w2", "tcp://elsewhere:5000", "no route");
  cluster_.SetReach("w2", "tcp://host:5000", "");
  cluster_.SetHost("e", "host5");
  cluster_.JoinServer("e", 1, {}, 0, "elsewhere");
  const uint32_t fails = Install(proto::Job::DEDICATED);
  cluster_.Advance(absl::Seconds(11));
  EXPECT_EQ(cluster_.Status(fails).state(), proto::FAILED);
  EXPECT_THAT(cluster_.Status(fails).reason(),
              StartsWith(reason + "; worker w2 (host) cannot reach server e at "
                                  "tcp://elsewhere:5000: no route"));
}

TEST_F(CorePlace, WhereAllShareAHostAndItsMemoryOneConnectionDoes) {
  for (const char* name : {"w1", "w2", "w3", "d"}) cluster_.SetHost(name, "host");
  for (const char* worker : {"w1", "w2", "w3"}) cluster_.JoinWorker(worker, 5);
  cluster_.JoinServer("d", 1);
  proto::Job job = CoreHarness::SomeJob(3);
  job.set_ranks_per_node(1);
  job.set_connections(4);
  const auto connections = [&](uint32_t id) {
    EXPECT_EQ(cluster_.Newest("d", Message::kInstallJob).install_job().record().job_id(), id);
    return cluster_.Newest("d", Message::kInstallJob).install_job().record().job().connections();
  };
  const uint32_t shares = InstallJob(job);
  EXPECT_EQ(connections(shares), 1u);
  EXPECT_EQ(cluster_.Status(shares).job().connections(), 1u);
  job.set_same_host(proto::Job::TCP);
  EXPECT_EQ(connections(InstallJob(job)), 4u);
  // Pushes that go by value although the host is one.
  job.set_same_host(proto::Job::REGIONS);
  job.mutable_consistency()->mutable_lazy()->set_staleness(2);
  EXPECT_EQ(connections(InstallJob(job)), 4u);
  job.mutable_consistency()->mutable_lazy()->set_staleness(0);
  EXPECT_EQ(connections(InstallJob(job)), 1u);
  job.mutable_push()->set_codec(proto::Encoding::FP16);
  EXPECT_EQ(connections(InstallJob(job)), 4u);
}

TEST_F(CorePlace, MoreConnectionsThanANodeMayHaveEndTheJobInOneLine) {
  for (const char* worker : {"w1", "w2", "w3"}) cluster_.JoinWorker(worker, 1);
  cluster_.JoinServer("s", 20);
  proto::Job job = CoreHarness::SomeJob(3);
  job.set_connections(13);
  const uint32_t id = InstallJob(job);
  EXPECT_EQ(cluster_.Status(id).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(id).reason(),
            "connections: 13 to each of 20 shards are 260 of a node; at most 256 are possible");
}

TEST_F(CorePlace, WithoutServersThereIsNothingToSay) {
  JoinAll();
  proto::Job job = CoreHarness::SomeJob(1);
  job.set_exchange(proto::Job::NONE);
  const uint32_t id = cluster_.Submit(job);
  cluster_.Ready("w1", id);
  EXPECT_EQ(cluster_.Status(id).state(), proto::RUNNING);
  EXPECT_THAT(cluster_.Status(id).placement(), IsEmpty());
}

}  // namespace
}  // namespace strata::server
