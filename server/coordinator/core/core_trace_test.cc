// What processes have recorded of a job, from daemons to the command line.
#include "common/trace/trace_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

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
