// Who holds a job up, by events.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A job of two nodes with one rank each. The test says once a second what they do.
class CoreWaitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinWorker("w1", 1);
    cluster_.JoinWorker("w2", 1);
    job_ = cluster_.Train(CoreHarness::SomeJob(2), {"w1", "w2"}, {"s1"});
    for (uint32_t n : {0, 1}) {
      activities_[n].set_job_id(job_);
      activities_[n].set_node(n);
      activities_[n].set_phase("training");
      activities_[n].set_process_state("running");
      proto::RankActivity* rank = activities_[n].add_ranks();
      rank->set_rank(n);
      rank->set_chunks(1);
      rank->set_process_state("running");
    }
  }

  // Rank 1 stands at step 57 from now on; rank 0 waits for it.
  void Stop() {
    proto::RankActivity* rank = activities_[1].mutable_ranks(0);
    rank->set_clock(57);
    rank->set_process_state("stopped by a signal");
    activities_[0].mutable_ranks(0)->set_waiting(true);
    stopped_ = true;
  }
  void GoOn() {
    activities_[1].mutable_ranks(0)->set_process_state("running");
    activities_[1].mutable_ranks(0)->set_idle_ms(0);
    stopped_ = false;
  }
  void Pass(int seconds) {
    for (int s = 0; s < seconds; ++s) {
      cluster_.Advance(absl::Seconds(1));
      for (uint32_t n : {0, 1}) {
        if (stopped_) {
          proto::RankActivity* rank = activities_[n].mutable_ranks(0);
          rank->set_idle_ms(rank->idle_ms() + 1000);
        }
        proto::DaemonMessage message;
        *message.mutable_heartbeat()->add_nodes() = activities_[n];
        cluster_.Send(n == 0 ? "w1" : "w2", message);
      }
    }
    cluster_.Advance(absl::Milliseconds(100));
  }
  std::vector<std::string> Waits() {
    std::vector<std::string> texts;
    const proto::JobStatus status = cluster_.Status(job_);
    for (const proto::Wait& wait : status.waits()) texts.push_back(wait.text());
    return texts;
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
  proto::NodeActivity activities_[2];
  bool stopped_ = false;
};

TEST_F(CoreWaitsTest, TheStatusNamesWhoHoldsTheJobUpAndTheLogHasTheSameWords) {
  Pass(20);
  EXPECT_THAT(Waits(), IsEmpty());
  Stop();
  Pass(5);
  ASSERT_EQ(Waits().size(), 1u);
  EXPECT_TRUE(cluster_.warnings().empty());
  std::string text;
  while (cluster_.warnings().empty()) {
    Pass(1);
    text = Waits().at(0);
    ASSERT_LT(text.size(), 70u);
  }
  EXPECT_EQ(text, "node 1 (w2) rank 1 at step 57 for 10 s: stopped by a signal");
  EXPECT_THAT(cluster_.warnings(), ElementsAre("job 1 (job) waits: " + text));
  Pass(30);
  EXPECT_EQ(cluster_.warnings().size(), 1u);
  GoOn();
  Pass(2);
  EXPECT_THAT(Waits(), IsEmpty());
  ASSERT_EQ(cluster_.warnings().size(), 2u);
  EXPECT_THAT(cluster_.warnings()[1],
              ::testing::StartsWith("job 1 (job) goes on, after it had waited for 4"));
}

TEST_F(CoreWaitsTest, FollowersSeeAWaitGrowAndEnd) {
  Pass(3);
  const size_t before = cluster_.events().size();
  Pass(5);
  EXPECT_EQ(cluster_.events().size(), before) << "nothing new";
  Stop();
  Pass(6);
  const auto& events = cluster_.events();
  ASSERT_GT(events.size(), before + 2);
  EXPECT_GT(events.back().status().waits(0).seconds(),
            events[events.size() - 2].status().waits(0).seconds());
  GoOn();
  Pass(2);
  EXPECT_THAT(events.back().status().waits(), IsEmpty());
}

TEST_F(CoreWaitsTest, AnEndedJobWaitsForNobodyAndTheStoreKeepsNoWaits) {
  Stop();
  Pass(5);
  EXPECT_EQ(Waits().size(), 1u);
  cluster_.Report("w1", job_, 0, 10);
  cluster_.Failed("w1", job_, "out of memory");
  EXPECT_THAT(Waits(), IsEmpty());
  EXPECT_THAT(cluster_.stored().at(job_).status().waits(), IsEmpty());
}

TEST_F(CoreWaitsTest, OneDaemonCannotSpeakForAnothersNode) {
  Pass(1);
  proto::DaemonMessage message;
  *message.mutable_heartbeat()->add_nodes() = activities_[1];
  message.mutable_heartbeat()->mutable_nodes(0)->mutable_ranks(0)->set_idle_ms(9000);
  cluster_.Send("s1", message);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(Waits(), IsEmpty());
}

TEST_F(CoreWaitsTest, TimeInWhichTheCoordinatorStoodStillCountsForNobody) {
  Pass(2);
  cluster_.Stall(absl::Seconds(60));
  cluster_.Advance(absl::Milliseconds(200));
  EXPECT_THAT(Waits(), IsEmpty());
}

}  // namespace
}  // namespace strata::server
