#ifndef STRATA_SERVER_COORDINATOR_TESTING_REPLACE_FIXTURE_H_
#define STRATA_SERVER_COORDINATOR_TESTING_REPLACE_FIXTURE_H_

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {

// A job whose nodes are replaced when they die. Node 0 is on w1 and node 1 on w2, with two ranks
// each; each of w3 and later could play one of them.
class ReplaceFixture : public ::testing::Test {
 protected:
  ReplaceFixture() {
    cluster_.JoinServer("s1", 1, {}, 0, "address-s1");
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
  }
  static proto::Job Job() {
    proto::Job job = CoreHarness::SomeJob(4);
    job.mutable_replace()->set_per_hour(2);
    job.mutable_replace()->set_patience_s(60);
    return job;
  }
  static proto::NodeReady Layout(uint32_t job) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_can_resume(true);
    return ready;
  }
  void Train(const proto::Job& job = Job()) {
    job_ = cluster_.Submit(job);
    LetTrain();
    for (const char* worker : {"w1", "w2"}) cluster_.SayActivity(worker, job_, NodeOf(worker), 50);
  }
  // From the start of its nodes.
  void LetTrain() {
    for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job_));
    cluster_.Installed("s1", job_);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << cluster_.Status(job_).reason();
    ForgetSent();
  }
  static uint32_t NodeOf(const std::string& worker) { return worker == "w1" ? 0 : 1; }
  void ForgetSent() {
    for (const char* daemon : {"w1", "w2", "w3", "w4"}) cluster_.Sent(daemon);
  }
  void Lose(const std::string& daemon) {
    cluster_.Disconnect(daemon);
    cluster_.Advance(absl::Seconds(3));
  }
  void Rejoin(const std::string& worker, uint32_t node, uint64_t step) {
    cluster_.Ready(worker, Layout(job_));
    cluster_.SayActivity(worker, job_, node, step, step);
  }
  uint32_t Incarnation(const std::string& worker) {
    return cluster_.Newest(worker, proto::CoordinatorMessage::kStartNode)
        .start_node()
        .incarnation();
  }
  proto::JobStatus Status() { return cluster_.Status(job_); }
  proto::ReplacementStatus Newest() {
    return Status().replacements(Status().replacements_size() - 1);
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TESTING_REPLACE_FIXTURE_H_
