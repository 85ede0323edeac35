// What the coordinator refuses is counted by cause, and nobody holds a connection who says nothing.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Numbers that the harness does not give.
const SessionId kStranger(1001), kOther(1002);

TEST(CoreRefusal, AConnectionThatNeverRegistersIsEndedAndCounted) {
  CoreHarness cluster;
  cluster.core().OnConnected(kStranger, cluster.now());
  cluster.Advance(absl::Seconds(9));
  EXPECT_FALSE(cluster.IsClosed(kStranger));
  cluster.Advance(absl::Seconds(2));
  EXPECT_TRUE(cluster.IsClosed(kStranger));
  cluster.core().OnDisconnected(kStranger, cluster.now());
  cluster.core().OnConnected(kOther, cluster.now());
  cluster.core().OnDisconnected(kOther, cluster.now());
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("session without Register", 2)));
}

TEST(CoreRefusal, TimeInWhichTheCoordinatorStoodStillCountsForNobody) {
  CoreHarness cluster;
  cluster.core().OnConnected(kStranger, cluster.now());
  cluster.Stall(absl::Seconds(60));
  EXPECT_FALSE(cluster.IsClosed(kStranger));
}

TEST(CoreRefusal, AMessageBeforeRegisterIsRefused) {
  CoreHarness cluster;
  cluster.core().OnConnected(kStranger, cluster.now());
  proto::DaemonMessage message;
  message.mutable_node_failed()->set_job_id(1);
  cluster.core().OnMessage(kStranger, message, cluster.now());
  EXPECT_TRUE(cluster.IsClosed(kStranger));
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("before Register", 1)));
}

TEST(CoreRefusal, ARegistrationOrJobThatIsRejectedIsCounted) {
  CoreHarness cluster;
  cluster.core().OnConnected(kStranger, cluster.now());
  proto::DaemonMessage message;
  message.mutable_register_()->set_protocol_version(999);
  cluster.core().OnMessage(kStranger, message, cluster.now());
  EXPECT_FALSE(cluster.core().Submit(proto::Job(), 1, cluster.now()).ok());
  EXPECT_THAT(cluster.core().refusals(),
              ElementsAre(Pair("rejected job", 1), Pair("rejected registration", 1)));
}

TEST(CoreRefusal, ADaemonThatRegistersIsNotOne) {
  CoreHarness cluster;
  const SessionId session = cluster.JoinWorker("w1", 2);
  cluster.Advance(absl::Minutes(1));
  EXPECT_FALSE(cluster.IsClosed(session));
  EXPECT_THAT(cluster.core().refusals(), IsEmpty());
}

}  // namespace
}  // namespace strata::server
