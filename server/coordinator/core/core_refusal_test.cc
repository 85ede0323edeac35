// What the coordinator refuses is counted by cause, and nobody holds a connection who says nothing.

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

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
  EXPECT_FALSE(cluster.core().Submit(proto::Job(), {}, 1, cluster.now()).ok());
  EXPECT_THAT(cluster.core().refusals(),
              ElementsAre(Pair("rejected job", 1), Pair("rejected registration", 1)));
}

TEST(CoreRefusal, ACopyOfARegistrationEndsNeitherSessionNorJobAndIsCounted) {
  CoreHarness cluster;
  const SessionId server = cluster.JoinServer("s1", 1);
  const SessionId worker = cluster.JoinWorker("w1", 2);
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  for (const char* daemon : {"s1", "w1"}) {
    cluster.core().OnConnected(kStranger, cluster.now());
    cluster.Repeat(daemon, kStranger);
    EXPECT_TRUE(cluster.IsClosed(kStranger));
  }
  EXPECT_FALSE(cluster.IsClosed(server));
  EXPECT_FALSE(cluster.IsClosed(worker));
  cluster.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING) << cluster.Status(job).reason();
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("registration seen before", 2)));
}

TEST(CoreRefusal, ACopyOfARegistrationIsKnownAfterARestartAndTheDaemonComesBack) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  cluster.Advance(absl::Milliseconds(100));
  cluster.Restart();
  for (const char* daemon : {"s1", "w1"}) cluster.Repeat(daemon, kStranger);
  cluster.JoinServer("s1", 1, {job});
  cluster.JoinWorker("w1", 2, {job});
  cluster.Advance(absl::Seconds(40));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING) << cluster.Status(job).reason();
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("registration seen before", 2)));
}

TEST(CoreRefusal, ADaemonThatRegistersIsNotOne) {
  CoreHarness cluster;
  const SessionId session = cluster.JoinWorker("w1", 2);
  cluster.Advance(absl::Minutes(1));
  EXPECT_FALSE(cluster.IsClosed(session));
  EXPECT_THAT(cluster.core().refusals(), IsEmpty());
}

// A daemon that is well registered, but has no part in the job.
TEST(CoreRefusal, WhatADaemonSaysAboutAJobOfOthersIsRefused) {
  CoreHarness cluster;
  cluster.JoinServer("s0", 1);
  cluster.JoinWorker("w0", 1);
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(1), {"w0"}, {"s0"});
  cluster.JoinWorker("mallory", 1);
  cluster.Failed("mallory", job, "so it says");
  cluster.Finished("mallory", job);
  cluster.Installed("mallory", job, "so it says");
  cluster.Ready("mallory", job);
  cluster.Report("mallory", job, 0, 1000);
  cluster.Failed("w0", job + 1, "a job that nobody has submitted");
  proto::DaemonMessage message;
  message.mutable_heartbeat()->add_jobs()->set_job_id(job);
  message.mutable_heartbeat()->add_nodes()->set_job_id(job);
  cluster.Send("mallory", message);
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("about a job of other daemons", 8)));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(job).progress().step(), 0u);
  cluster.Finished("w0", job);
  EXPECT_EQ(cluster.Status(job).state(), proto::FINISHED);
  // Words that come late are none of that.
  cluster.Report("w0", job, 0, 10);
  cluster.Send("s0", message);
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("about a job of other daemons", 8)));
}

// Of a program's tensors nothing is known before its nodes are ready.
TEST(CoreRefusal, AveragedTensorsDoNotGoWithWhatWouldChangeThem) {
  CoreHarness cluster;
  cluster.JoinServer("s0", 1);
  cluster.JoinWorker("w0", 1);
  const auto reason = [&](const char* change) {
    proto::Job job = CoreHarness::SomeJob(1);
    proto::Job part;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &part)) << change;
    if (part.has_consistency()) job.clear_consistency();
    job.MergeFrom(part);
    const uint32_t id = cluster.Submit(job);
    proto::NodeReady ready = CoreHarness::SomeLayout(id);
    ready.mutable_layout()->mutable_segments(0)->set_averaged(true);
    cluster.Ready("w0", ready);
    if (cluster.Status(id).state() == proto::FAILED) return cluster.Status(id).reason();
    cluster.Failed("w0", id, "next");
    return std::string("accepted");
  };
  const std::string tensor = "node 0 (w0): tensor \"w\": is averaged, which does not go with ";
  EXPECT_EQ(reason("push { codec: TOP_K }"), tensor + "push.codec: TOP_K");
  EXPECT_EQ(reason("push { codec: DGC } optimizer { sgd {} }"), tensor + "push.codec: DGC");
  EXPECT_EQ(reason("pull { codec: INT8 }"), tensor + "pull.codec: INT8");
  EXPECT_EQ(reason("consistency { lazy { local_steps: 2 } }"),
            tensor + "consistency.lazy.local_steps");
  EXPECT_EQ(reason("consistency { async { elastic { every_steps: 2 moving_rate: 0.5 } } }"),
            tensor + "consistency.async.elastic");
  EXPECT_EQ(reason("consistency { async { delay_compensation {} } }"),
            tensor + "consistency.async.delay_compensation");
  for (const char* fits :
       {"", "push { codec: FP16 } pull { codec: BF16 }", "consistency { lazy { staleness: 2 } }"}) {
    EXPECT_EQ(reason(fits), "accepted") << fits;
  }
}

}  // namespace
}  // namespace strata::server
