// Event-driven tests of the diagnosis of waiting jobs.
#include "common/job/trace_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// A job of two nodes with one rank each. The test reports their activity once a second.
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

  // Rank 1 stays at step 57 from now on; rank 0 waits for it.
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

TEST_F(CoreWaitsTest, PausesOfTheCoordinatorCountForNoDaemon) {
  Pass(2);
  cluster_.Stall(absl::Seconds(60));
  cluster_.Advance(absl::Milliseconds(200));
  EXPECT_THAT(Waits(), IsEmpty());
}

// ---- traces ----

class CoreTraceTest : public ::testing::Test {
 protected:
  CoreTraceTest() {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinWorker("w1", 1);
    cluster_.JoinWorker("w2", 1);
  }
  uint32_t Train(uint32_t traced_steps) {
    proto::Job job = CoreHarness::SomeJob(2);
    job.mutable_trace()->set_steps(traced_steps);
    return cluster_.Train(job, {"w1", "w2"}, {"s1"});
  }
  void Say(const std::string& daemon, uint32_t job, uint64_t clock) {
    proto::DaemonMessage message;
    proto::TraceBatch* batch = message.mutable_trace();
    batch->set_job_id(job);
    batch->set_process("process of " + daemon);
    batch->add_events()->set_clock(clock);
    cluster_.Send(daemon, message);
  }
  void SayEnd(const std::string& daemon, uint32_t job) {
    proto::DaemonMessage message;
    *message.mutable_trace() = TraceEnd(job);
    cluster_.Send(daemon, message);
  }
  bool IsComplete(uint32_t job) {
    return cluster_.core().GetTrace(JobId(job), cluster_.now())->complete;
  }
  // "HOST PROCESS CLOCK"
  std::vector<std::string> Held(uint32_t job) {
    std::vector<std::string> lines;
    const auto found = cluster_.core().GetTrace(JobId(job), cluster_.now());
    EXPECT_TRUE(found.ok()) << found.status();
    for (const auto& text : found->batches) {
      proto::TraceBatch batch;
      EXPECT_TRUE(batch.ParseFromString(*text));
      lines.push_back(
          absl::StrFormat("%s %s %d", batch.host(), batch.process(), batch.events(0).clock()));
    }
    return lines;
  }

  CoreHarness cluster_;
};

TEST_F(CoreTraceTest, IsCompleteOnceTheJobHasEndedAndEachOfItsDaemonsHasSaidAll) {
  const uint32_t job = Train(5);
  Say("w1", job, 1);
  Say("w2", job, 2);
  SayEnd("w1", job);
  cluster_.Finished("w1", job);
  SayEnd("w2", job);
  EXPECT_FALSE(IsComplete(job)) << "it goes on";
  cluster_.Finished("w2", job);
  EXPECT_FALSE(IsComplete(job)) << "its server may have more to say";
  Say("s1", job, 3);
  SayEnd("s1", job);
  EXPECT_TRUE(IsComplete(job));
  EXPECT_THAT(Held(job),
              ElementsAre("w1 process of w1 1", "w2 process of w2 2", "s1 process of s1 3"));
}

TEST_F(CoreTraceTest, ADaemonThatIsLostIsNotWaitedFor) {
  const uint32_t job = Train(5);
  Say("w1", job, 1);
  cluster_.Disconnect("s1");
  cluster_.Advance(absl::Seconds(5));
  ASSERT_EQ(cluster_.Status(job).state(), proto::FAILED);
  SayEnd("w1", job);
  EXPECT_FALSE(IsComplete(job));
  SayEnd("w2", job);
  EXPECT_TRUE(IsComplete(job));
  EXPECT_THAT(Held(job), ElementsAre("w1 process of w1 1"));
}

TEST_F(CoreTraceTest, TheLastWordsOfAnEndedJobAreWaitedForSoLong) {
  const uint32_t job = Train(5);
  for (const char* worker : {"w1", "w2"}) cluster_.Finished(worker, job);
  cluster_.Advance(absl::Milliseconds(9500));
  EXPECT_FALSE(IsComplete(job));
  cluster_.Advance(absl::Seconds(1));
  EXPECT_TRUE(IsComplete(job));
}

TEST_F(CoreTraceTest, AJobThatWasCancelledInTheQueueHasAnEmptyTrace) {
  Train(0);  // takes all slots
  proto::Job job = CoreHarness::SomeJob(2);
  job.mutable_trace()->set_steps(5);
  const uint32_t queued = cluster_.Submit(job);
  EXPECT_FALSE(IsComplete(queued));
  ASSERT_TRUE(cluster_.core().Cancel(JobId(queued), cluster_.now()).ok());
  EXPECT_TRUE(IsComplete(queued));
  EXPECT_THAT(Held(queued), IsEmpty());
}

TEST_F(CoreTraceTest, AJobThatFailsBeforeItTrainsHasNothingToWaitFor) {
  proto::Job job = CoreHarness::SomeJob(2);
  job.mutable_trace()->set_steps(5);
  const uint32_t id = cluster_.Submit(job);
  cluster_.Failed("w1", id, "no data");
  ASSERT_EQ(cluster_.Status(id).state(), proto::FAILED);
  EXPECT_TRUE(IsComplete(id));
}

TEST_F(CoreTraceTest, AJobThatIsNotTracedHasNone) {
  const uint32_t job = Train(0);
  Say("w1", job, 1);
  EXPECT_THAT(cluster_.core().refusals(), ElementsAre(Pair("trace that was not asked for", 1)));
  EXPECT_EQ(cluster_.core().traces().bytes(), 0u);
  EXPECT_EQ(
      cluster_.core().GetTrace(JobId(job), cluster_.now()).status(),
      absl::FailedPreconditionError("job 1 (job) has no trace: it was submitted without --trace"));
  EXPECT_EQ(cluster_.core().GetTrace(JobId(99), cluster_.now()).status(),
            absl::NotFoundError("no job 99"));
}

TEST_F(CoreTraceTest, BatchesThatAreTooLargeAreRefused) {
  const uint32_t job = Train(5);
  proto::DaemonMessage message;
  message.mutable_trace()->set_job_id(job);
  message.mutable_trace()->set_process(std::string(1000, 'x'));
  message.mutable_trace()->add_events();
  cluster_.Send("w1", message);
  message.mutable_trace()->set_process("x");
  for (size_t i = 0; i < kTraceEventsPerBatchMax; ++i) message.mutable_trace()->add_events();
  cluster_.Send("w1", message);
  EXPECT_THAT(cluster_.core().refusals(), ElementsAre(Pair("trace that was not asked for", 2)));
  EXPECT_THAT(Held(job), IsEmpty());
}

TEST_F(CoreTraceTest, ADaemonSpeaksOnlyOfItsOwnJobsAndOnlyForItself) {
  cluster_.JoinWorker("w3", 1);
  const uint32_t job = Train(5);
  Say("w3", job, 1);
  EXPECT_THAT(Held(job), IsEmpty());
  proto::DaemonMessage message;
  message.mutable_trace()->set_job_id(job);
  message.mutable_trace()->set_host("w2");
  message.mutable_trace()->set_process("p");
  message.mutable_trace()->add_events();
  cluster_.Send("w1", message);
  EXPECT_THAT(Held(job), ElementsAre("w1 p 0"));
}

}  // namespace

}  // namespace strata::server
