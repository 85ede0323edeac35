// Event-driven tests of jobs whose nodes all-reduce among themselves.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Message = proto::CoordinatorMessage;

class CoreRing : public testing::Test {
 protected:
  CoreRing() {
    for (const char* name : {"w1", "w2", "w3"}) cluster_.JoinWorker(name, 2);
    for (const char* name : {"w1", "w2", "w3"}) cluster_.Sent(name);
  }

  static proto::Job RingJob(proto::AllReduce::Algorithm algorithm) {
    proto::Job job = CoreHarness::SomeJob(3);
    job.set_ranks_per_node(1);
    job.set_exchange(proto::Job::RING);
    job.mutable_all_reduce()->set_algorithm(algorithm);
    return job;
  }

  void Ready(const std::string& worker, uint32_t job, const std::string& endpoint) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_endpoint(endpoint);
    cluster_.Ready(worker, ready);
  }
  void AllReady(uint32_t job) {
    for (const char* name : {"w1", "w2", "w3"}) Ready(name, job, std::string("tcp://") + name);
  }
  void Measured(const std::string& worker, uint32_t job, double latency_us, double bytes_per_s) {
    proto::DaemonMessage message;
    message.mutable_link_measured()->set_job_id(job);
    message.mutable_link_measured()->set_latency_us(latency_us);
    message.mutable_link_measured()->set_bytes_per_s(bytes_per_s);
    cluster_.Send(worker, message);
  }

  CoreHarness cluster_;
};

TEST_F(CoreRing, WithItsAlgorithmGivenAJobTrainsOnceAllNodesAreReadyAndNeedsNoServer) {
  const uint32_t job = cluster_.Submit(RingJob(proto::AllReduce::HALVING_DOUBLING));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  AllReady(job);
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StartNode 1", "RunNode 1"));
  const proto::JobRecord record = cluster_.Newest("w2", Message::kRunNode).run_node().record();
  EXPECT_THAT(record.ring().endpoints(), ElementsAre("tcp://w1", "tcp://w2", "tcp://w3"));
  EXPECT_EQ(record.ring().algorithm(), proto::AllReduce::HALVING_DOUBLING);
  EXPECT_EQ(record.placement().chunk_elements(), 1000u);
  for (const char* name : {"w1", "w2", "w3"}) cluster_.Finished(name, job);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
}

TEST_F(CoreRing, OtherwiseTheNodesMeasureAndTheSlowestLinkDecides) {
  const uint32_t job = cluster_.Submit(RingJob(proto::AllReduce::AUTO));
  AllReady(job);
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StartNode 1", "MeasureLink 1"));
  Measured("w1", job, 10, 1e9);
  Measured("w1", job, 9999, 1);  // only the first counts
  Measured("w2", job, 400, 2e9);
  EXPECT_THAT(cluster_.Sent("w2"), IsEmpty());
  EXPECT_EQ(cluster_.Status(job).reason(), "measures its links");
  Measured("w3", job, 20, 1e8);
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("RunNode 1"));
  const proto::Ring ring = cluster_.Newest("w2", Message::kRunNode).run_node().record().ring();
  EXPECT_DOUBLE_EQ(ring.latency_us(), 400);
  EXPECT_DOUBLE_EQ(ring.bytes_per_s(), 1e8);
  // Three nodes, 4,000 bytes: four messages either way, but a fold moves more.
  EXPECT_EQ(ring.algorithm(), proto::AllReduce::RING);
  EXPECT_EQ(cluster_.Status(job).job().all_reduce().algorithm(), proto::AllReduce::RING);
}

TEST_F(CoreRing, ANodeThatComesBackWhileLinksAreMeasuredIsAskedAgain) {
  const uint32_t job = cluster_.Submit(RingJob(proto::AllReduce::AUTO));
  AllReady(job);
  Measured("w1", job, 10, 1e9);
  cluster_.Disconnect("w2");
  cluster_.Disconnect("w1");
  cluster_.JoinWorker("w2", 2, {job});
  cluster_.JoinWorker("w1", 2, {job});
  EXPECT_THAT(cluster_.Sent("w2"),
              ElementsAre("StartNode 1", "MeasureLink 1", "Registered", "MeasureLink 1"));
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StartNode 1", "MeasureLink 1", "Registered"));
}

TEST_F(CoreRing, OfOneNodeOrOfOneThatDoesNotListenFailsInOneLine) {
  proto::Job one = RingJob(proto::AllReduce::AUTO);
  one.set_ranks(2);
  one.set_ranks_per_node(2);
  one.mutable_model()->set_zoo("mlp");
  one.mutable_data()->mutable_synthetic();
  const uint32_t alone = cluster_.Submit(one);
  EXPECT_EQ(cluster_.Status(alone).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(alone).reason(),
            "exchange: RING needs two nodes, but all 2 ranks are on worker w1: set ranks_per_node, "
            "or use PARAMETER_SERVER");
  const uint32_t mute = cluster_.Submit(RingJob(proto::AllReduce::AUTO));
  Ready("w1", mute, "tcp://w1");
  Ready("w2", mute, "");
  Ready("w3", mute, "tcp://w3");
  EXPECT_EQ(cluster_.Status(mute).reason(),
            "worker w2 (node 1, rank 1) does not say where its aggregator listens");
}

// The node sums its ranks' gradients; no other node is needed.
TEST_F(CoreRing, OfOneNodeTrainsAtOnceWhereRanksRunAProgram) {
  proto::Job job = RingJob(proto::AllReduce::AUTO);
  job.set_ranks(2);
  job.set_ranks_per_node(2);
  job.clear_model();
  job.clear_data();
  job.mutable_program()->set_path("/p");
  const uint32_t alone = cluster_.Submit(job);
  Ready("w1", alone, "tcp://w1");
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StartNode 1", "RunNode 1"));
  const proto::Ring ring = cluster_.Newest("w1", Message::kRunNode).run_node().record().ring();
  EXPECT_THAT(ring.endpoints(), ElementsAre("tcp://w1"));
  EXPECT_EQ(ring.algorithm(), proto::AllReduce::RING);
  cluster_.Finished("w1", alone);
  EXPECT_EQ(cluster_.Status(alone).state(), proto::FINISHED);
}

TEST_F(CoreRing, OfMoreNodesThanElementsFailsInOneLine) {
  const uint32_t job = cluster_.Submit(RingJob(proto::AllReduce::RING));
  for (const char* name : {"w1", "w2", "w3"}) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_endpoint("tcp://w");
    ready.mutable_layout()->set_elements(2);
    ready.mutable_layout()->mutable_segments(0)->set_shape(0, 2);
    cluster_.Ready(name, ready);
  }
  EXPECT_EQ(cluster_.Status(job).reason(),
            "exchange: RING cuts each chunk into 3 slices, one per node, but the model has 2 "
            "elements");
}

// ---- NCCL ----

class CoreNccl : public testing::Test {
 protected:
  CoreNccl() {
    for (const char* name : {"w1", "w2"}) {
      cluster_.SetGpus(name, 2);
      cluster_.JoinWorker(name, 4);
      cluster_.Sent(name);
    }
    proto::Job job = CoreHarness::SomeJob(4);
    job.set_device(proto::Job::GPU);
    job.set_exchange(proto::Job::NCCL);
    job_ = cluster_.Submit(job);
  }

  void Ready(const std::string& worker, const std::string& nccl_id) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job_);
    ready.set_nccl_id(nccl_id);
    cluster_.Ready(worker, ready);
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

TEST_F(CoreNccl, AllNodesHearTheIdOfRank0sAndNoServerIsNeeded) {
  const std::string id(128, 'n');
  Ready("w2", "");
  Ready("w1", id);
  for (const char* name : {"w1", "w2"}) {
    EXPECT_THAT(cluster_.Sent(name), ElementsAre("StartNode 1", "RunNode 1"));
    const proto::JobRecord record = cluster_.Newest(name, Message::kRunNode).run_node().record();
    EXPECT_EQ(record.nccl_id(), id);
    EXPECT_EQ(record.placement().chunk_elements(), 1000u);
  }
  cluster_.Finished("w1", job_);
  cluster_.Finished("w2", job_);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FINISHED);
}

TEST_F(CoreNccl, AnIdThatIsNoneFailsTheJob) {
  Ready("w1", "short");
  Ready("w2", std::string(128, 'n'));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job_).reason(),
            "node 0 (w1) gives an id of 5 bytes for NCCL's ranks to meet by, not 128");
}

}  // namespace

}  // namespace strata::server
