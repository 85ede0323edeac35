// Event-driven tests of which worker reaches which shard, and how jobs react.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFirst[] = "tcp://host:5000";   // the first shard of a server
constexpr char kSecond[] = "tcp://host:5001";  // its second one
constexpr char kTimedOut[] =
    "worker w1 (host) cannot reach server s1 at tcp://host:5001: connection timed out; check route "
    "and firewall, or start the server with --interface or --advertise";

proto::Job OneRankOn(int nodes) {
  proto::Job job = CoreHarness::SomeJob(nodes);
  job.set_ranks_per_node(1);
  return job;
}

TEST(CoreReach, EveryShardThatAWorkerTriedIsShownWithItsError) {
  CoreHarness cluster;
  cluster.SetReach("w1", kSecond, "connection timed out");
  cluster.JoinServer("s1", 2);
  cluster.JoinWorker("w1", 1);
  const proto::ListNodesReply nodes = cluster.core().ListNodes(cluster.now());
  EXPECT_EQ(nodes.daemons(0).peers_size(), 0) << "servers try nobody";
  ASSERT_EQ(nodes.daemons(1).peers_size(), 2);
  EXPECT_EQ(nodes.daemons(1).peers(0).address(), kFirst);
  EXPECT_EQ(nodes.daemons(1).peers(0).name(), "s1");
  EXPECT_EQ(nodes.daemons(1).peers(0).error(), "");
  EXPECT_EQ(nodes.daemons(1).peers(1).address(), kSecond);
  EXPECT_EQ(nodes.daemons(1).peers(1).error(), "connection timed out");
}

TEST(CoreReach, AJobThatNeedsAnUnreachableShardWaitsWithTheReasonAndStartsWhenItHeals) {
  CoreHarness cluster;
  cluster.SetReach("w1", kSecond, "connection timed out");
  cluster.JoinWorker("w1", 1);
  cluster.JoinServer("s1", 2);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  EXPECT_EQ(cluster.Status(job).state(), proto::QUEUED);
  EXPECT_EQ(cluster.Status(job).reason(), kTimedOut);
  cluster.Advance(absl::Seconds(60));
  EXPECT_EQ(cluster.Status(job).state(), proto::QUEUED) << "however long it takes";
  cluster.SetReach("w1", kSecond, "");
  cluster.Advance(absl::Seconds(4));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
}

TEST(CoreReach, AJobStartsOnTheWorkersThatReachAllShards) {
  CoreHarness cluster;
  cluster.SetReach("w1", kFirst, "connection refused");
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  cluster.JoinWorker("w2", 1);
  const uint32_t small = cluster.Submit(OneRankOn(1));
  ASSERT_EQ(cluster.Status(small).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(small).nodes(0).daemon(), "w2");
}

TEST(CoreReach, AJobThatWaitsForAnUnreachableShardLetsOthersPass) {
  CoreHarness cluster;
  cluster.SetReach("w1", kFirst, "connection refused");
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  cluster.JoinWorker("w2", 1);
  const uint32_t big = cluster.Submit(OneRankOn(2));
  const uint32_t small = cluster.Submit(OneRankOn(1));
  EXPECT_THAT(cluster.Status(big).reason(), HasSubstr("worker w1 (host) cannot reach server s1"));
  EXPECT_EQ(cluster.Status(small).state(), proto::RUNNING);
}

TEST(CoreReach, AJobWithoutServersDoesNotCare) {
  CoreHarness cluster;
  cluster.SetReach("w1", kFirst, "connection refused");
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  proto::Job job = CoreHarness::SomeJob(1);
  job.set_exchange(proto::Job::NONE);
  EXPECT_EQ(cluster.Status(cluster.Submit(job)).state(), proto::RUNNING);
}

TEST(CoreReach, AJobWaitsForTheFirstAnswerButNotForeverAndThenTakesNothingForBad) {
  CoreHarness cluster;
  cluster.SetReach("w1", kFirst, std::nullopt);
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  EXPECT_EQ(cluster.Status(job).reason(),
            "waits to hear whether worker w1 reaches server s1 at tcp://host:5000");
  cluster.Advance(absl::Seconds(4));
  EXPECT_EQ(cluster.Status(job).state(), proto::QUEUED);
  cluster.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
}

TEST(CoreReach, AnAnswerThatWasLostIsAskedForAgain) {
  CoreHarness cluster;
  cluster.SetReach("w1", kFirst, std::nullopt);
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  cluster.Advance(absl::Seconds(1));
  cluster.SetReach("w1", kFirst, "connection refused");
  cluster.Advance(absl::Seconds(7));
  EXPECT_EQ(cluster.core().ListNodes(cluster.now()).daemons(1).peers(0).error(),
            "connection refused");
}

TEST(CoreReach, AReachedShardIsTriedAgainNowAndThen) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  cluster.SetReach("w1", kFirst, "no route to host");
  cluster.Advance(absl::Seconds(32));
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  EXPECT_THAT(cluster.Status(job).reason(), HasSubstr("no route to host"));
}

TEST(CoreReach, AServerThatAWorkerOfTheJobDoesNotReachTakesNoChunkOfIt) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  ASSERT_EQ(cluster.Status(job).state(), proto::RUNNING);
  cluster.SetReach("w1", kSecond, "connection refused");
  cluster.JoinServer("s2", 2);
  cluster.Ready("w1", job);
  cluster.Installed("s1", job);
  ASSERT_EQ(cluster.Status(job).shards_size(), 1);
  EXPECT_EQ(cluster.Status(job).shards(0).daemon(), "s1");
}

TEST(CoreReach, AServerThatAWorkerCannotReachHoldsUpNoJobThatHasAnother) {
  CoreHarness cluster;
  cluster.SetReach("w2", "tcp://far:5000", "connection timed out");
  cluster.JoinServer("s1", 1);
  cluster.JoinServer("s2", 1, {}, 0, "far");
  for (const char* daemon : {"w1", "w2"}) cluster.JoinWorker(daemon, 1);
  const uint32_t job = cluster.Submit(OneRankOn(2));
  ASSERT_EQ(cluster.Status(job).state(), proto::RUNNING) << cluster.Status(job).reason();
  for (const char* daemon : {"w1", "w2"}) cluster.Ready(daemon, job);
  cluster.Installed("s1", job);
  ASSERT_EQ(cluster.Status(job).shards_size(), 1);
  EXPECT_EQ(cluster.Status(job).shards(0).daemon(), "s1");
  const std::string without =
      "without server s2: worker w2 (host) cannot reach server s2 at tcp://far:5000: connection "
      "timed out; check route and firewall, or start the server with --interface or --advertise";
  EXPECT_EQ(cluster.Status(job).reason(), without);
  EXPECT_THAT(cluster.warnings(), ElementsAre("job 1 (job) runs " + without));
  for (const char* daemon : {"w1", "w2"}) cluster.Finished(daemon, job);
  EXPECT_EQ(cluster.Status(job).state(), proto::FINISHED);
  EXPECT_EQ(cluster.Status(job).reason(), "");
}

TEST(CoreReach, AJobTakesTheWorkersThatHaveTheMostServersInCommon) {
  CoreHarness cluster;
  const std::string servers[] = {"s1", "s2", "s3"};
  const auto cannot = [&](const std::string& worker, const std::string& server) {
    cluster.SetReach(worker, "tcp://" + server + ":5000", "no route to host");
  };
  for (const std::string& server : servers) cluster.JoinServer(server, 1, {}, 0, server);
  cannot("w1", "s2");
  cannot("w1", "s3");
  cannot("w2", "s1");
  cannot("w3", "s1");
  for (const char* worker : {"w1", "w2", "w3"}) cluster.JoinWorker(worker, 1);
  const uint32_t job = cluster.Submit(OneRankOn(2));
  ASSERT_EQ(cluster.Status(job).state(), proto::RUNNING) << cluster.Status(job).reason();
  EXPECT_EQ(cluster.Status(job).nodes(0).daemon(), "w2");
  EXPECT_EQ(cluster.Status(job).nodes(1).daemon(), "w3");
  for (const char* worker : {"w2", "w3"}) cluster.Ready(worker, job);
  ASSERT_EQ(cluster.Status(job).shards_size(), 2);
  EXPECT_EQ(cluster.Status(job).shards(0).daemon(), "s2");
}

TEST(CoreReach, ServersThatComeBackWhileAJobStartsAreWaitedFor) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinServer("s2", 1, {}, 0, "far");
  cluster.JoinWorker("w1", 1);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  cluster.Disconnect("s2");
  cluster.Ready("w1", job);
  EXPECT_EQ(cluster.Status(job).shards_size(), 0);
  EXPECT_EQ(cluster.Status(job).reason(), "waits for server s2 to come back");
  cluster.JoinServer("s2", 1, {}, 0, "far");
  EXPECT_EQ(cluster.Status(job).shards_size(), 2);

  const uint32_t next = cluster.Submit(CoreHarness::SomeJob(1));
  cluster.Installed("s1", job);
  cluster.Installed("s2", job);
  cluster.Finished("w1", job);
  cluster.Disconnect("s2");
  cluster.Ready("w1", next);
  cluster.Advance(absl::Seconds(3));
  ASSERT_EQ(cluster.Status(next).shards_size(), 1) << "but not for long";
  EXPECT_EQ(cluster.Status(next).shards(0).daemon(), "s1");
}

TEST(CoreReach, AJobWhoseNodesAreReadyAndReachNoServerFailsAfterAWhile) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 2);
  cluster.JoinWorker("w1", 1);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  cluster.SetReach("w1", kSecond, "connection timed out");
  cluster.Disconnect("s1");
  cluster.JoinServer("s1", 2);
  cluster.Ready("w1", job);
  cluster.Advance(absl::Seconds(9));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(job).reason(), kTimedOut);
  cluster.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster.Status(job).reason(), kTimedOut);
}

TEST(CoreReach, AJobWhoseOnlyServerIsLostWhileItStartsWaitsForTheNextButNotForever) {
  for (const bool comes_back : {true, false}) {
    CoreHarness cluster;
    cluster.JoinServer("s1", 1);
    cluster.JoinWorker("w1", 1);
    const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
    cluster.Disconnect("s1");
    cluster.Advance(absl::Seconds(3));
    cluster.Ready("w1", job);
    EXPECT_EQ(cluster.Status(job).reason(), "waits for a server: none is alive");
    cluster.Advance(absl::Seconds(5));
    if (comes_back) cluster.JoinServer("s1", 1, {}, 77);
    cluster.Advance(absl::Seconds(6));
    EXPECT_EQ(cluster.Status(job).state(), comes_back ? proto::RUNNING : proto::FAILED);
    EXPECT_EQ(cluster.Status(job).reason(),
              comes_back ? "waits for its servers" : "no server is alive");
  }
}

TEST(CoreReach, WhatAWorkerDoesNotReachItDoesNotReachWhenItIsLostTogetherWithAServer) {
  CoreHarness cluster;
  cluster.JoinServer("a1", 1, {}, 0, "address-a1");
  cluster.JoinServer("b1", 1, {}, 0, "address-b1");
  cluster.JoinWorker("w1", 1);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  ASSERT_EQ(cluster.Status(job).state(), proto::RUNNING) << cluster.Status(job).reason();
  // Both are new processes: nothing is known of one, the other is not reached.
  cluster.SetReach("w1", "tcp://address-a1:5000", std::nullopt);
  cluster.SetReach("w1", "tcp://address-b1:5000", "connection refused");
  for (const char* server : {"a1", "b1"}) {
    cluster.Disconnect(server);
    cluster.JoinServer(server, 1, {}, 0, std::string("address-") + server);
  }
  cluster.Ready("w1", job);
  cluster.Sent("b1");
  cluster.Disconnect("a1");
  cluster.Disconnect("w1");
  cluster.Advance(absl::Seconds(8));
  EXPECT_EQ(cluster.Status(job).state(), proto::FAILED);
  EXPECT_THAT(cluster.Status(job).reason(), HasSubstr("worker w1"));
  EXPECT_THAT(cluster.Sent("b1"), testing::IsEmpty()) << "nobody reaches it";
}

TEST(CoreReach, AServerThatIsStartedAnewTakesNoChunkBeforeItIsTried) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  cluster.Disconnect("s1");
  cluster.Ready("w1", job);
  EXPECT_EQ(cluster.Status(job).reason(), "waits for server s1 to come back");
  cluster.SetReach("w1", kFirst, "connection timed out");
  cluster.Sent("s1");
  cluster.JoinServer("s1", 1, {}, 77);
  EXPECT_THAT(cluster.Sent("s1"), ElementsAre("Registered"));
  EXPECT_THAT(cluster.Status(job).reason(), HasSubstr("connection timed out"));
}

TEST(CoreReach, ADaemonThatRegistersAnewIsTriedAnew) {
  CoreHarness cluster;
  cluster.SetReach("w1", kFirst, "connection refused");
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  cluster.Disconnect("s1");
  cluster.Advance(absl::Seconds(3));
  EXPECT_EQ(cluster.core().ListNodes(cluster.now()).daemons(1).peers_size(), 0);
  cluster.SetReach("w1", kFirst, "");
  cluster.JoinServer("s1", 1, {}, 99);
  const auto nodes = cluster.core().ListNodes(cluster.now());
  ASSERT_EQ(nodes.daemons(1).peers_size(), 1);
  EXPECT_EQ(nodes.daemons(1).peers(0).error(), "");
}

TEST(CoreReach, AnswersAboutAddressesThatNobodyAskedForAreDropped) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  proto::DaemonMessage message;
  proto::PeerReach* peer = message.mutable_peers_tried()->add_peers();
  peer->set_address("tcp://host:1");
  peer->set_name("s1");
  peer->set_error("made up");
  peer = message.mutable_peers_tried()->add_peers();
  peer->set_address(kFirst);
  peer->set_name("another");
  peer->set_error("made up");
  cluster.Send("w1", message);
  const auto nodes = cluster.core().ListNodes(cluster.now());
  ASSERT_EQ(nodes.daemons(1).peers_size(), 1);
  EXPECT_EQ(nodes.daemons(1).peers(0).error(), "");
}

TEST(CoreReach, AServerOnLoopbackIsToldHowToBeReached) {
  CoordinatorCore::Options options;
  CoreHarness cluster(options);
  cluster.JoinServer("s1", 1, {}, 0, "127.0.0.1");
  cluster.SetReach("w1", "tcp://127.0.0.1:5000", "connection refused");
  cluster.JoinWorker("w1", 1);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
  EXPECT_EQ(cluster.Status(job).reason(),
            "worker w1 (host) cannot reach server s1 at tcp://127.0.0.1:5000: connection refused; "
            "the server advertises a loopback address: start it with --interface or --advertise");
}

}  // namespace
}  // namespace strata::server
