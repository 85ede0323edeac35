// Short breaks of connections while a job starts, by events.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using Message = proto::CoordinatorMessage;

class CoreBreakTest : public ::testing::Test {
 protected:
  void JoinAll() {
    cluster_.JoinServer("s1", 2);
    cluster_.JoinServer("s2", 1);
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
    for (const char* daemon : {"s1", "s2", "w1", "w2"}) cluster_.Sent(daemon);
  }

  CoreHarness cluster_;
};

TEST_F(CoreBreakTest, BreaksWhileStartingHarmNothingWhateverWasLostInThem) {
  JoinAll();
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  const auto break_of_worker = [&](const std::string& name, bool holds) {
    cluster_.Disconnect(name);
    cluster_.Sent(name);
    cluster_.JoinWorker(name, 2, holds ? std::vector<uint32_t>{job} : std::vector<uint32_t>());
    return cluster_.Sent(name);
  };
  const auto break_of_server = [&](const std::string& name, uint32_t shards, bool holds) {
    cluster_.Disconnect(name);
    cluster_.Sent(name);
    cluster_.JoinServer(name, shards, holds ? std::vector<uint32_t>{job} : std::vector<uint32_t>());
    return cluster_.Sent(name);
  };
  // The command is lost, then the answer.
  EXPECT_THAT(break_of_worker("w2", false), ElementsAre("Registered", "StartNode 1"));
  EXPECT_THAT(break_of_worker("w2", true), ElementsAre("Registered", "StartNode 1"));
  EXPECT_EQ(cluster_.Newest("w2", Message::kStartNode).start_node().node(), 1u);
  cluster_.Ready("w2", job);
  cluster_.Ready("w2", job);
  EXPECT_THAT(break_of_worker("w2", true), ElementsAre("Registered"));
  EXPECT_THAT(break_of_server("s2", 1, false), ElementsAre("Registered"));
  cluster_.Ready("w1", job);
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("InstallJob 1"));
  EXPECT_THAT(break_of_server("s1", 2, false), ElementsAre("Registered", "InstallJob 1"));
  EXPECT_THAT(break_of_server("s1", 2, true), ElementsAre("Registered", "InstallJob 1"));
  cluster_.Installed("s1", job);
  cluster_.Installed("s1", job);
  EXPECT_THAT(break_of_server("s1", 2, true), ElementsAre("Registered"));
  EXPECT_THAT(break_of_worker("w1", true), ElementsAre("Registered"));
  cluster_.Disconnect("w1");
  cluster_.Installed("s2", job);
  cluster_.Sent("w1");
  cluster_.JoinWorker("w1", 2, {job});
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("Registered", "RunNode 1"));
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << cluster_.Status(job).reason();
}

TEST_F(CoreBreakTest, AReadyWorkerThatComesBackWithoutTheJobMaySayHowItEnded) {
  JoinAll();
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Ready("w2", job);
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {});
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster_.Status(job).reason(),
            "worker w2 (node 1, ranks 2 to 3) no longer runs the job");
}

TEST_F(CoreBreakTest, AWorkerThatIsNotHeardIsNotTakenToHaveLostTheJob) {
  JoinAll();
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {});
  cluster_.Advance(absl::Seconds(4), "w2");
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << "what it has to say may be on its way";
  cluster_.Finished("w2", job);
  cluster_.Finished("w1", job);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
}

TEST_F(CoreBreakTest, AWorkerThatComesBackStopsWhatHasEndedBeforeItBeginsTheNext) {
  JoinAll();
  const uint32_t first = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Failed("w1", first, "boom");
  cluster_.Disconnect("w2");
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {first});
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "StopNode 1", "StartNode 2"));
}

TEST_F(CoreBreakTest, TheProcessAfterALostOneIsLetInBeforeItIsToldAnything) {
  JoinAll();
  cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Disconnect("w2");
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {}, 77);
  EXPECT_THAT(cluster_.Sent("w2").at(0), "Registered");
}

TEST_F(CoreBreakTest, AServerThatLosesTheJobBeforeTrainingFailsIt) {
  JoinAll();
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1"});
  cluster_.Disconnect("s1");
  cluster_.JoinServer("s1", 2, {});
  EXPECT_EQ(cluster_.Status(job).reason(), "server s1 no longer holds the job's weights");
}

}  // namespace
}  // namespace strata::server
