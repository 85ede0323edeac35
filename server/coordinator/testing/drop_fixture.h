#ifndef STRATA_SERVER_COORDINATOR_TESTING_DROP_FIXTURE_H_
#define STRATA_SERVER_COORDINATOR_TESTING_DROP_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {

// A job whose four nodes, of one rank each, all-reduce among themselves and go on without those
// that die: node 0 is on w1, node 3 on w4.
class DropFixture : public ::testing::Test {
 protected:
  using Message = proto::CoordinatorMessage;

  DropFixture() {
    for (const std::string& worker : Workers()) {
      cluster_.SetGpus(worker, 1);
      cluster_.JoinWorker(worker, 1);
    }
  }
  static std::vector<std::string> Workers() { return {"w1", "w2", "w3", "w4"}; }
  // By which ranks may meet that the worker's first one knows.
  static std::string SomeId(const std::string& worker) { return std::string(128, worker[1]); }
  static uint32_t NodeOf(const std::string& worker) {
    return static_cast<uint32_t>(worker[1] - '1');
  }
  static proto::Job Job() {
    proto::Job job = CoreHarness::SomeJob(4);
    job.set_ranks_per_node(1);
    job.set_exchange(proto::Job::RING);
    job.set_on_loss(proto::Job::DROP);
    job.mutable_all_reduce()->set_algorithm(proto::AllReduce::RING);
    return job;
  }
  // The same where the nodes' ranks do so on their GPUs.
  static proto::Job OnGpus() {
    proto::Job job = Job();
    job.clear_all_reduce();
    job.set_exchange(proto::Job::NCCL);
    job.set_device(proto::Job::GPU);
    return job;
  }
  void Begin(const proto::Job& job = Job()) { job_ = cluster_.Submit(job); }
  void BeReady(const std::string& worker) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job_);
    ready.set_endpoint(absl::StrCat("tcp://", worker));
    ready.set_run_dir(absl::StrCat("/runs/", worker));
    ready.set_nccl_id(SomeId(worker));
    cluster_.Ready(worker, ready);
  }
  void Train(const proto::Job& job = Job()) {
    Begin(job);
    for (const std::string& worker : Workers()) BeReady(worker);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << Status().reason();
    ForgetSent();
  }
  void ForgetSent() {
    for (const std::string& worker : Workers()) cluster_.Sent(worker);
  }
  // A process of the worker's node was killed.
  void Die(const std::string& worker) {
    proto::DaemonMessage message;
    message.mutable_node_failed()->set_job_id(job_);
    message.mutable_node_failed()->set_incarnation(1);
    message.mutable_node_failed()->set_reason("rank killed by signal 9");
    message.mutable_node_failed()->set_is_death(true);
    cluster_.Send(worker, message);
  }
  // The number that nodes were last asked about.
  uint32_t Asked(const std::string& worker) {
    return cluster_.Newest(worker, Message::kStopRing).stop_ring().number();
  }
  proto::RingStopped Answer(const std::string& worker, uint64_t clock) {
    proto::RingStopped stopped;
    stopped.set_job_id(job_);
    stopped.set_node(NodeOf(worker));
    stopped.set_number(Asked(worker));
    stopped.set_clock(clock);
    stopped.set_from_clock(clock + 2);
    stopped.set_incarnation(1);
    return stopped;
  }
  void Say(const std::string& worker, const proto::RingStopped& stopped) {
    proto::DaemonMessage message;
    *message.mutable_ring_stopped() = stopped;
    cluster_.Send(worker, message);
  }
  void Stop(const std::string& worker, uint64_t clock) { Say(worker, Answer(worker, clock)); }
  // What the worker's node was last told to form; nothing: number 0.
  proto::FormRing Formed(const std::string& worker) {
    return cluster_.Newest(worker, Message::kFormRing).form_ring();
  }
  uint32_t FormedNumber(const std::string& worker) { return Formed(worker).change().number(); }
  void Lose(const std::string& worker) {
    cluster_.Disconnect(worker);
    cluster_.Advance(absl::Seconds(3));
  }
  proto::JobStatus Status() { return cluster_.Status(job_); }
  const proto::StoredJob& Stored() { return cluster_.stored().at(job_); }
  const proto::JobRecord& Record() { return Stored().record(); }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TESTING_DROP_FIXTURE_H_
