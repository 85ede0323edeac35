// An etcd of three members, some of which are lost.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/service/etcd/etcd_state.h"
#include "server/coordinator/testing/etcd_cluster.h"

namespace strata::server {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

proto::StoredJob Job(uint32_t id) {
  proto::StoredJob job;
  job.mutable_record()->set_job_id(id);
  job.mutable_status()->set_job_id(id);
  return job;
}

class EtcdMembersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto etcd = EtcdCluster::Start(absl::StrCat(::testing::TempDir(), "/etcd-members"));
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    // Members elect within a second or two, and a first try may go to the one that is lost.
    auto state = EtcdState::Open(
        {.endpoints = etcd_->endpoints(), .cluster = "c", .failover = absl::Seconds(20)});
    ASSERT_TRUE(state.ok()) << state.status();
    state_ = *std::move(state);
    ASSERT_TRUE(state_->Campaign("a:1", [this](const absl::Status&) { deposed_.Notify(); }).ok());
    const auto leadership = state_->AwaitElection(kLong);
    ASSERT_TRUE(leadership.ok()) << leadership.status();
    auto store = state_->OpenStore(*leadership);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::unique_ptr<EtcdCluster> etcd_;
  absl::Notification deposed_;
  std::unique_ptr<EtcdState> state_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(EtcdMembersTest, WritesGoOnWithoutAnyOneMemberWhetherItIsDeadOrStandsStill) {
  uint32_t id = 0;
  for (int member = 0; member < EtcdCluster::kMembers; ++member) {
    etcd_->Kill(member);
    const absl::Status saved = store_->Save(Job(++id));
    EXPECT_TRUE(saved.ok()) << member << " dead: " << saved;
    ASSERT_TRUE(etcd_->Restart(member).ok());
    // It is back before the next one goes.
    ASSERT_TRUE(store_->Save(Job(++id)).ok());
    etcd_->Signal(member, SIGSTOP);
    const absl::Status stopped = store_->Save(Job(++id));
    EXPECT_TRUE(stopped.ok()) << member << " stands still: " << stopped;
    etcd_->Signal(member, SIGCONT);
    ASSERT_TRUE(store_->Save(Job(++id)).ok());
  }
  EXPECT_EQ(store_->Load()->size(), id);
  EXPECT_TRUE(state_->leads());
  EXPECT_FALSE(deposed_.HasBeenNotified());
}

TEST_F(EtcdMembersTest, OneOfThreeAloneSavesNothingAndItsLeaderIsDeposed) {
  etcd_->Kill(0);
  etcd_->Kill(1);
  EXPECT_FALSE(store_->Save(Job(1)).ok());
  ASSERT_TRUE(deposed_.WaitForNotificationWithTimeout(kLong));
  EXPECT_FALSE(state_->leads());
}

}  // namespace
}  // namespace strata::server
