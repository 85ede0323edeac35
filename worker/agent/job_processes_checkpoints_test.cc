// What JobProcessesCore makes of what children say of checkpoints.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "worker/agent/job_processes_core.h"

namespace strata::worker {
namespace {

constexpr int kAggregator = 2;

// Node 0 of job 7 on daemon w1, with ranks 0 and 1, which run.
class JobProcessesCheckpointsTest : public testing::Test {
 protected:
  void SetUp() override {
    proto::StartNode start;
    start.mutable_record()->set_job_id(7);
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
  std::vector<proto::DaemonMessage> Pass(absl::Duration time) {
    now_ += time;
    core_->OnTime(now_);
    return Said();
  }

  absl::Time now_ = absl::UnixEpoch();
  std::optional<JobProcessesCore> core_;
};

TEST_F(JobProcessesCheckpointsTest, PartsAreForwardedWithTheJobsIdAlsoAfterItHasFailed) {
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

TEST_F(JobProcessesCheckpointsTest, DamageThatAChildFindsMakesTheFailureOne) {
  proto::ChildMessage message;
  message.set_damaged("/c/clock-40/node-0-7.0: checksum\nis another one");
  EXPECT_TRUE(Say(kAggregator, message).empty());
  const std::vector<proto::DaemonMessage> said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].node_failed().is_damaged());
  EXPECT_EQ(said[0].node_failed().reason(),
            "aggregator (node 0, w1): /c/clock-40/node-0-7.0: checksum is another one");
}

TEST_F(JobProcessesCheckpointsTest, OtherFailuresAreNoDamage) {
  proto::ChildMessage message;
  message.set_failed("loss is NaN");
  EXPECT_TRUE(Say(1, message).empty());
  const std::vector<proto::DaemonMessage> said = Pass(JobDeadlines().symptom_time);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].node_failed().reason(), "rank 1 (node 0, w1): loss is NaN");
  EXPECT_FALSE(said[0].node_failed().is_damaged());
}

}  // namespace
}  // namespace strata::worker
