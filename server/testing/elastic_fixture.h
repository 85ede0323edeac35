#ifndef STRATA_SERVER_TESTING_ELASTIC_FIXTURE_H_
#define STRATA_SERVER_TESTING_ELASTIC_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {

// A job whose nodes may join and leave, with one rank each: 2 at first, on w1 and w2, at least 1,
// at most 4. Each of w3 and later could take one of them.
class ElasticFixture : public ::testing::Test {
 protected:
  using Message = proto::CoordinatorMessage;

  ElasticFixture() {
    cluster_.JoinServer("s1", 1, {}, 0, "address-s1");
    cluster_.JoinServer("s2", 1, {}, 0, "address-s2");
    for (const char* worker : {"w1", "w2"}) cluster_.JoinWorker(worker, 1);
  }
  static proto::Job Job() {
    proto::Job job = CoreHarness::SomeJob(2);
    job.set_ranks_per_node(1);
    job.set_ranks_min(1);
    job.set_ranks_max(4);
    job.set_chunk_elements(256);
    return job;
  }
  // The same job, with nodes that are restarted when they die.
  static proto::Job ReplacedJob() {
    proto::Job job = Job();
    job.mutable_replace()->set_per_hour(10);
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
    for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job_));
    for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job_);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << Status().reason();
    ForgetSent();
  }
  void ForgetSent() {
    for (const char* daemon : {"s1", "s2", "w1", "w2", "w3", "w4", "w5"}) cluster_.Sent(daemon);
  }
  // A worker joins the cluster, and a node of the job starts there.
  void Join(const std::string& worker) {
    cluster_.JoinWorker(worker, 1);
    cluster_.Advance(absl::Seconds(1));
    cluster_.Ready(worker, Layout(job_));
  }
  // The number of the question that the node was last asked.
  uint32_t Asked(const std::string& worker) {
    return cluster_.Newest(worker, Message::kProposeView).propose_view().number();
  }
  void Promise(const std::string& worker, uint32_t node, uint64_t from, uint32_t number,
               uint32_t incarnation = 1) {
    proto::DaemonMessage message;
    proto::ViewPromised* const promised = message.mutable_view_promised();
    promised->set_job_id(job_);
    promised->set_node(node);
    promised->set_number(number);
    promised->set_from_clock(from);
    promised->set_incarnation(incarnation);
    cluster_.Send(worker, message);
  }
  void Promise(const std::string& worker, uint32_t node, uint64_t from) {
    Promise(worker, node, from, Asked(worker));
  }
  void InstallChange(const std::string& server, const std::string& error = "") {
    proto::DaemonMessage message;
    proto::ViewInstalled* const installed = message.mutable_view_installed();
    installed->set_job_id(job_);
    installed->set_number(AnnouncedChange(server).number());
    installed->set_error(error);
    cluster_.Send(server, message);
  }
  proto::ViewChange AnnouncedChange(const std::string& daemon) {
    return cluster_.Newest(daemon, Message::kChangeView).change_view();
  }
  // Node 2 joins on w3 at step 40.
  void LetJoin() {
    Join("w3");
    Promise("w1", 0, 40);
    Promise("w2", 1, 38);
    for (const char* server : {"s1", "s2"}) InstallChange(server);
    ForgetSent();
  }
  proto::JobStatus Status() { return cluster_.Status(job_); }
  const proto::JobStatus& Stored() { return cluster_.stored().at(job_).status(); }
  const proto::JobRecord& Record() { return cluster_.stored().at(job_).record(); }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_TESTING_ELASTIC_FIXTURE_H_
