// What JobProcessesCore passes on between children and the coordinator, of checkpoints, refusals,
// changes of the job's nodes and a lost rank that is the last to end.
#include <signal.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "worker/agent/job_processes_core.h"

namespace strata::worker {
namespace {

constexpr int kRank = 0, kAggregator = 2;

// Node 0 of job 7 on daemon w1, with ranks 0 and 1, which run.
class JobProcessesMessagesTest : public testing::Test {
 protected:
  void SetUp() override {
    proto::StartNode start;
    start.set_incarnation(4);
    start.mutable_record()->set_job_id(7);
    start.mutable_record()->set_attempt(3);
    start.mutable_record()->mutable_view()->add_nodes()->set_ranks(2);
    core_.emplace("w1", start, "/runs/job-7", JobDeadlines(), nullptr, now_);
    core_->Start(now_);
    core_->OnClaimed(absl::OkStatus(), now_);
    for (int i = 0; i < core_->life().children(); ++i) core_->OnStarted();
    core_->TakeActions();
  }
  // Returns what the coordinator is told of it.
  std::vector<proto::DaemonMessage> Say(int child, const proto::ChildMessage& message) {
    core_->OnChildMessage(child, message.SerializeAsString(), now_);
    return Said();
  }
  std::vector<proto::DaemonMessage> Said() {
    std::vector<proto::DaemonMessage> said;
    for (const JobProcessesCore::Action& action : core_->TakeActions()) {
      const auto* up = std::get_if<JobProcessesCore::SendUp>(&action);
      if (up != nullptr) said.push_back(up->message);
    }
    return said;
  }
  // Returns what the aggregator is told.
  std::vector<proto::AgentMessage> Told() {
    std::vector<proto::AgentMessage> told;
    for (const JobProcessesCore::Action& action : core_->TakeActions()) {
      const auto* down = std::get_if<JobProcessesCore::SendDown>(&action);
      if (down != nullptr) told.push_back(down->message);
    }
    return told;
  }
  std::vector<proto::DaemonMessage> Pass(absl::Duration time) {
    now_ += time;
    core_->OnTime(now_);
    return Said();
  }

  absl::Time now_ = absl::UnixEpoch();
  std::optional<JobProcessesCore> core_;
};

TEST_F(JobProcessesMessagesTest, PartsAreForwardedWithTheJobsIdAlsoAfterItHasFailed) {
  proto::ChildMessage message;
  proto::CheckpointPart* part = message.mutable_checkpoint();
  part->set_job_id(99);
  part->set_token(5);
  part->set_clock(40);
  part->set_node(0);
  part->mutable_object()->set_name("clock-40/node-0-7.0");
  proto::CheckpointPart expected = *part;
  expected.set_job_id(7);
  std::vector<proto::DaemonMessage> said = Say(kAggregator, message);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].checkpoint_part().SerializeAsString(), expected.SerializeAsString());

  core_->Fail("told to", now_);
  EXPECT_TRUE(Said().at(0).has_node_failed());
  said = Say(kAggregator, message);
  ASSERT_EQ(said.size(), 1u) << "it is in the store";
  EXPECT_EQ(said[0].checkpoint_part().SerializeAsString(), expected.SerializeAsString());

  part->set_rank(1);
  said = Say(1, message);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].checkpoint_part().job_id(), 7u);
  EXPECT_EQ(said[0].checkpoint_part().rank(), 1u);
}

TEST_F(JobProcessesMessagesTest, DamageThatAChildFindsMakesTheFailureOne) {
  proto::ChildMessage message;
  message.set_damaged("/c/clock-40/node-0-7.0: checksum\nis another one");
  EXPECT_TRUE(Say(kAggregator, message).empty());
  const std::vector<proto::DaemonMessage> said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].node_failed().is_damaged());
  EXPECT_EQ(said[0].node_failed().reason(),
            "aggregator (node 0, w1): /c/clock-40/node-0-7.0: checksum is another one");
}

TEST_F(JobProcessesMessagesTest, OtherFailuresAreNoDamage) {
  proto::ChildMessage message;
  message.set_failed("loss is NaN");
  EXPECT_TRUE(Say(1, message).empty());
  const std::vector<proto::DaemonMessage> said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].node_failed().reason(), "rank 1 (node 0, w1): loss is NaN");
  EXPECT_FALSE(said[0].node_failed().is_damaged());
}

TEST_F(JobProcessesMessagesTest, RefusalsAreTheAggregatorsAndNotARanks) {
  proto::ChildMessage message;
  proto::Refusal* refusal = message.mutable_refusals()->add_refusals();
  refusal->set_cause("wrong secret of a job");
  refusal->set_count(4);
  Say(kRank, message);
  EXPECT_EQ(core_->watch().refusals(), transport::Refusals());
  EXPECT_TRUE(Say(kAggregator, message).empty()) << "the heartbeat tells it";
  EXPECT_EQ(core_->watch().refusals(), (transport::Refusals{{"wrong secret of a job", 4}}));
}

TEST_F(JobProcessesMessagesTest, ChangesOfTheJobsNodesReachTheAggregatorOnceItRuns) {
  proto::AgentMessage propose, change, stop, form;
  propose.mutable_propose_view()->set_number(9);
  change.mutable_change_view()->set_number(9);
  change.mutable_change_view()->set_at_clock(40);
  change.mutable_change_view()->add_joined(2);
  stop.mutable_stop_ring()->set_number(10);
  form.mutable_form_ring()->set_clock(50);
  core_->Tell(propose);
  core_->Tell(change);
  core_->Tell(form);
  EXPECT_TRUE(Told().empty()) << "its record will have them";

  core_->Run({}, now_);
  const std::vector<proto::AgentMessage> words = {propose, change, propose, stop, form};
  for (const proto::AgentMessage& word : words) core_->Tell(word);
  const std::vector<proto::AgentMessage> told = Told();
  ASSERT_EQ(told.size(), 1 + words.size()) << "the run, and what is said again, too";
  EXPECT_TRUE(told[0].has_run());
  for (size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(told[i + 1].SerializeAsString(), words[i].SerializeAsString());
  }

  core_->Stop(now_);
  core_->TakeActions();
  for (const proto::AgentMessage& word : words) core_->Tell(word);
  EXPECT_TRUE(Told().empty());
}

TEST_F(JobProcessesMessagesTest, ANodeThatDoesNotRunYetSaysThatItsRingCannotGoOn) {
  proto::AgentMessage stop;
  stop.mutable_stop_ring()->set_number(10);
  core_->Tell(stop);
  const std::vector<proto::DaemonMessage> said = Said();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].ring_stopped().ShortDebugString(),
            "job_id: 7 attempt: 3 number: 10 incarnation: 4 error: \"node 0 (w1): does not train "
            "yet\"");
}

TEST_F(JobProcessesMessagesTest, HowFarAStoppedRingIsNamesTheProcessesThatSayIt) {
  proto::ChildMessage message;
  proto::RingStopped* stopped = message.mutable_ring_stopped();
  stopped->set_number(9);
  stopped->set_clock(40);
  stopped->set_from_clock(42);
  stopped->set_is_over(true);
  EXPECT_TRUE(Say(kRank, message).empty()) << "ranks do not exchange";
  const std::vector<proto::DaemonMessage> said = Say(kAggregator, message);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].ring_stopped().ShortDebugString(),
            "job_id: 7 attempt: 3 number: 9 clock: 40 from_clock: 42 is_over: true incarnation: 4");
  core_->Fail("told to", now_);
  EXPECT_TRUE(Said().at(0).has_node_failed());
  EXPECT_TRUE(Say(kAggregator, message).empty()) << "it is void";
}

TEST_F(JobProcessesMessagesTest, WhatTheNodeFailsWithSaysWhetherItDied) {
  core_->OnExit(1, ExitStatus{0, 9}, "", now_);
  std::vector<proto::DaemonMessage> said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].node_failed().reason(), "rank 1 (node 0, w1): killed by signal 9 (Killed)");
  EXPECT_TRUE(said[0].node_failed().is_death());

  SetUp();
  core_->OnExit(1, ExitStatus{1, 0}, "", now_);
  said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_FALSE(said[0].node_failed().is_death());

  SetUp();
  core_->Fail("worker w1 was stopped", now_, /*is_death=*/true);
  EXPECT_TRUE(Said().at(0).node_failed().is_death());
}

TEST_F(JobProcessesMessagesTest, WhatANodePromisesNamesTheProcessesThatPromise) {
  proto::ChildMessage message;
  proto::ViewPromised* promised = message.mutable_view_promised();
  promised->set_node(0);
  promised->set_number(9);
  promised->set_from_clock(40);
  EXPECT_TRUE(Say(kRank, message).empty()) << "ranks promise nothing";
  const std::vector<proto::DaemonMessage> said = Say(kAggregator, message);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].view_promised().ShortDebugString(),
            "job_id: 7 attempt: 3 number: 9 from_clock: 40 incarnation: 4");
  core_->Fail("told to", now_);
  EXPECT_TRUE(Said().at(0).has_node_failed());
  EXPECT_TRUE(Say(kAggregator, message).empty()) << "it is void";
}

TEST_F(JobProcessesMessagesTest, ALostRankThatIsTheLastToEndIsTheReasonOnce) {
  proto::ChildMessage lost;
  lost.mutable_lost()->set_local_rank(1);
  EXPECT_TRUE(Say(kAggregator, lost).empty());
  core_->OnExit(kRank, ExitStatus{}, "", now_);
  core_->OnExit(kAggregator, ExitStatus{1, 0}, "", now_);
  EXPECT_TRUE(Pass(JobDeadlines().symptom_time).empty());
  core_->OnExit(1, ExitStatus{0, SIGKILL}, "", now_);
  const std::vector<proto::DaemonMessage> said = Said();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].node_failed().reason(), "rank 1 (node 0, w1): killed by signal 9 (Killed)");
}

}  // namespace
}  // namespace strata::worker
