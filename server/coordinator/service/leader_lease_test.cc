#include "server/coordinator/service/leader_lease.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/testing/etcd_process.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTtl = absl::Seconds(3);
constexpr absl::Duration kLeaderLeaseLong = absl::Seconds(60);

// A lease and its final status.
struct Contender {
  Contender(std::shared_ptr<EtcdClient> client, const std::string& address) {
    auto started =
        LeaderLease::Start(std::move(client), {.cluster = "c",
                                               .address = address,
                                               .ttl = kTtl,
                                               .on_deposed = [this](const absl::Status& status) {
                                                 why = status;
                                                 deposed.Notify();
                                               }});
    EXPECT_TRUE(started.ok()) << started.status();
    lease = *std::move(started);
  }

  absl::Status why;
  absl::Notification deposed;
  std::unique_ptr<LeaderLease> lease;
};

class LeaderLeaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto etcd = EtcdProcess::Start(absl::StrCat(::testing::TempDir(), "/leader-lease"));
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    client_ = etcd_->Client();
  }

  const std::string key_ = EtcdKeys("c").Leader();
  std::unique_ptr<EtcdProcess> etcd_;
  std::shared_ptr<EtcdClient> client_;
};

TEST_F(LeaderLeaseTest, OfTwoOneLeadsAndTheOtherFollowsAtOnceWhenItGivesUp) {
  EXPECT_EQ(ReadLeader(*client_, "c").status(),
            absl::NotFoundError(
                absl::StrCat(client_->name(), ": strata/c/leader: no coordinator leads now")));
  Contender a(client_, "a:7070");
  const auto first = a.lease->AwaitElection(kLeaderLeaseLong);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->cluster, "c");
  EXPECT_TRUE(a.lease->leads());
  EXPECT_EQ(a.lease->leader(), "a:7070");

  Contender b(client_, "b:7070");
  EXPECT_EQ(b.lease->AwaitElection(2 * kTtl).status(),
            absl::DeadlineExceededError("strata/c/leader: a:7070 leads"));
  EXPECT_FALSE(b.lease->leads());
  EXPECT_EQ(b.lease->leader(), "a:7070");
  EXPECT_TRUE(a.lease->leads()) << "the lease is refreshed";
  EXPECT_EQ(*ReadLeader(*client_, "c"), "a:7070");

  a.lease.reset();
  EXPECT_FALSE(a.deposed.HasBeenNotified()) << "it gave up by itself";
  const auto second = b.lease->AwaitElection(kTtl / 2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(second->create_revision, first->create_revision);
  EXPECT_EQ(*ReadLeader(*client_, "c"), "b:7070");
}

TEST_F(LeaderLeaseTest, OneThatCannotRefreshIsDeposedBeforeItsLeaseEnds) {
  Contender a(etcd_->Client(), "a:7070");
  ASSERT_TRUE(a.lease->AwaitElection(kLeaderLeaseLong).ok());
  etcd_->Signal(SIGSTOP);
  const absl::Time stopped = absl::Now();
  while (a.lease->leads() && absl::Now() < stopped + kLeaderLeaseLong)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_LT(absl::Now() - stopped, kTtl) << "the lease began before etcd was stopped";
  EXPECT_GT(absl::Now() - stopped, kTtl / 4) << "one refresh that fails deposes nobody";
  ASSERT_TRUE(a.deposed.WaitForNotificationWithTimeout(kLeaderLeaseLong));
  EXPECT_EQ(a.why.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(a.why.message()),
              HasSubstr("strata/c/leader: the lease could not be refreshed in time: etcd at "));
  EXPECT_THAT(std::string(a.why.message()), HasSubstr("no answer within"));
  etcd_->Signal(SIGCONT);
  // It never leads again; another one does.
  EXPECT_EQ(a.lease->AwaitElection(kLeaderLeaseLong).status(),
            absl::FailedPreconditionError("strata/c/leader: this coordinator leads no longer"));
  Contender b(client_, "b:7070");
  EXPECT_TRUE(b.lease->AwaitElection(kLeaderLeaseLong).ok());
}

TEST_F(LeaderLeaseTest, AShortSilenceOfEtcdDeposesNobody) {
  Contender a(client_, "a:7070");
  ASSERT_TRUE(a.lease->AwaitElection(kLeaderLeaseLong).ok());
  for (int times = 0; times < 3; ++times) {
    etcd_->Signal(SIGSTOP);
    absl::SleepFor(kTtl / 6);
    etcd_->Signal(SIGCONT);
    absl::SleepFor(kTtl / 2);
    EXPECT_TRUE(a.lease->leads());
  }
  EXPECT_FALSE(a.deposed.HasBeenNotified());
}

TEST_F(LeaderLeaseTest, ALeaseThatEtcdTookAwayIsNoticed) {
  Contender a(client_, "a:7070");
  ASSERT_TRUE(a.lease->AwaitElection(kLeaderLeaseLong).ok());
  const auto range = client_->Range(RangeOf(key_));
  ASSERT_TRUE(client_->RevokeLease(OnlyKey(*range)->lease(), {}).ok());
  ASSERT_TRUE(a.deposed.WaitForNotificationWithTimeout(kTtl));
  EXPECT_EQ(a.why.code(), absl::StatusCode::kNotFound) << a.why;
  EXPECT_FALSE(a.lease->leads());
}

TEST_F(LeaderLeaseTest, AKeyThatSomebodyTookAwayIsNoticed) {
  Contender a(client_, "a:7070");
  ASSERT_TRUE(a.lease->AwaitElection(kLeaderLeaseLong).ok());
  etcdserverpb::TxnRequest request;
  *request.add_success() = Put(key_, "a:7070");
  *request.mutable_success(0) = Delete(key_);
  ASSERT_TRUE(client_->Txn(request).ok());
  ASSERT_TRUE(a.deposed.WaitForNotificationWithTimeout(kTtl));
  EXPECT_EQ(a.why, absl::FailedPreconditionError("strata/c/leader: was taken away: nobody leads"));
}

TEST_F(LeaderLeaseTest, OneWhoseElectionIsNotAnsweredLeads) {
  EtcdProxy proxy(etcd_->endpoint());
  proxy.LoseAnswers(1);
  Contender a(*EtcdClient::Open({.endpoints = proxy.endpoint(), .tls = {}}), "a:7070");
  const auto leadership = a.lease->AwaitElection(kTtl / 2);
  ASSERT_TRUE(leadership.ok()) << leadership.status();
  const auto range = client_->Range(RangeOf(key_));
  EXPECT_EQ(OnlyKey(*range)->create_revision(), leadership->create_revision);
}

TEST_F(LeaderLeaseTest, AClusterLeadsBesideAnother) {
  Contender a(client_, "a:7070");
  ASSERT_TRUE(a.lease->AwaitElection(kLeaderLeaseLong).ok());
  auto other = LeaderLease::Start(client_, {.cluster = "c2", .address = "b:1", .on_deposed = {}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE((*other)->AwaitElection(kLeaderLeaseLong).ok());
  EXPECT_TRUE(a.lease->leads());
}

TEST_F(LeaderLeaseTest, WhatCannotBeginSaysSo) {
  EXPECT_EQ(LeaderLease::Start(client_, {.cluster = "a/b", .address = "a:1", .on_deposed = {}})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  const std::string endpoint = etcd_->endpoint();
  etcd_->Kill();
  EXPECT_EQ(LeaderLease::Start(etcd_->Client(absl::Seconds(1)),
                               {.cluster = "c", .address = "a:1", .on_deposed = {}})
                .status(),
            absl::UnavailableError(absl::StrCat(
                "etcd at ", endpoint, " does not answer: ", endpoint, ": connection refused")));
}

}  // namespace
}  // namespace strata::server
