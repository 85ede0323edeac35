#include "common/job/trace_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using proto::TraceEvent;

proto::Job TracedJob(uint64_t first_step, uint32_t steps) {
  proto::Job job;
  job.mutable_trace()->set_first_step(first_step);
  job.mutable_trace()->set_steps(steps);
  return job;
}

class TraceLogTest : public ::testing::Test {
 protected:
  absl::Time At(int64_t us) const { return absl::FromUnixMicros(us); }
  TraceLog::Options Options() {
    return {.now = [this] { return now_; }, .waiting_max = 4, .events_max = 10};
  }
  void Note(TraceLog* log, uint32_t chunk) {
    log->Note(TraceEvent::SUM, ChunkId(chunk), 0, At(0), At(1));
  }

  absl::Time now_ = absl::FromUnixMicros(1'000'000);
};

TEST_F(TraceLogTest, AJobThatAsksForNoTraceHasNoLog) {
  EXPECT_EQ(TraceLog::Create(proto::Job()), nullptr);
  EXPECT_EQ(TraceLog::Create(TracedJob(5, 0)), nullptr);
  EXPECT_NE(TraceLog::Create(TracedJob(0, 1)), nullptr);
}

TEST_F(TraceLogTest, AClockOfLocalStepsIsTheLastOfThem) {
  proto::Job job = TracedJob(3, 2);
  EXPECT_EQ(TraceLog::Create(job, Options())->StepOf(4), 4u);
  job.mutable_consistency()->mutable_lazy()->set_local_steps(16);
  EXPECT_EQ(TraceLog::Create(job, Options())->StepOf(0), 15u);
  EXPECT_EQ(TraceLog::Create(job, Options())->StepOf(4), 79u);
}

TEST_F(TraceLogTest, WantsTheStepsFromTheFirstOn) {
  const auto log = TraceLog::Create(TracedJob(3, 2), Options());
  EXPECT_FALSE(log->Wants(2));
  EXPECT_TRUE(log->Wants(3));
  EXPECT_TRUE(log->Wants(4));
  EXPECT_FALSE(log->Wants(5));
  EXPECT_FALSE(log->IsPast(4));
  EXPECT_TRUE(log->IsPast(5));
  EXPECT_FALSE(log->IsPast(0));
}

TEST_F(TraceLogTest, AFirstStepNearTheEndOfNumbersDoesNotWrapAround) {
  const auto log = TraceLog::Create(TracedJob(UINT64_MAX, 10), Options());
  EXPECT_FALSE(log->Wants(0));
  EXPECT_TRUE(log->Wants(UINT64_MAX));
}

TEST_F(TraceLogTest, WhatADeviceDoesNamesIt) {
  const auto log = TraceLog::Create(TracedJob(0, 9), Options());
  log->Note(TraceEvent::TO_HOST, ChunkId(7), 3, At(10), At(20), /*node=*/0, /*device=*/5);
  log->Note(TraceEvent::SEND, ChunkId(7), 3, At(20), At(30));
  const proto::TraceBatch batch = log->TakeBatch();
  EXPECT_EQ(batch.events(0).phase(), TraceEvent::TO_HOST);
  EXPECT_EQ(batch.events(0).device(), 5u);
  EXPECT_EQ(batch.events(1).phase(), TraceEvent::SEND);
  EXPECT_EQ(batch.events(1).device(), 0u);
}

TEST_F(TraceLogTest, ABatchHoldsEventsAsTheyWereNoted) {
  const auto log = TraceLog::Create(TracedJob(0, 9), Options());
  log->Note(TraceEvent::SERVER_WAIT, ChunkId(7), 3, At(2'000'000), At(2'000'250), 1);
  EXPECT_TRUE(log->has_news());
  const proto::TraceBatch batch = log->TakeBatch();
  ASSERT_EQ(batch.events_size(), 1);
  EXPECT_EQ(batch.events(0).phase(), TraceEvent::SERVER_WAIT);
  EXPECT_EQ(batch.events(0).chunk(), 7u);
  EXPECT_EQ(batch.events(0).clock(), 3u);
  EXPECT_EQ(batch.events(0).start_us(), 2'000'000u);
  EXPECT_EQ(batch.events(0).duration_us(), 250u);
  EXPECT_EQ(batch.events(0).node(), 1u);
  EXPECT_EQ(batch.dropped(), 0u);
  EXPECT_FALSE(log->has_news());
}

TEST_F(TraceLogTest, WhatLiesWithinAnotherEventDoesSoInMicroseconds) {
  const auto log = TraceLog::Create(TracedJob(0, 1), Options());
  const absl::Time begin = At(10) + absl::Nanoseconds(900);
  const absl::Time end = At(20) + absl::Nanoseconds(100);
  log->Note(TraceEvent::FORWARD, ChunkId(0), 0, begin, end);
  log->Note(TraceEvent::WAIT, ChunkId(0), 0, begin, end - absl::Nanoseconds(50));
  const proto::TraceBatch batch = log->TakeBatch();
  for (const TraceEvent& event : batch.events()) {
    EXPECT_EQ(event.start_us(), 10u);
    EXPECT_EQ(event.duration_us(), 10u);
  }
}

TEST_F(TraceLogTest, AClockThatWasSetBackMakesNoNegativeDuration) {
  const auto log = TraceLog::Create(TracedJob(0, 1), Options());
  log->Note(TraceEvent::SUM, ChunkId(0), 0, At(500), At(100));
  EXPECT_EQ(log->TakeBatch().events(0).duration_us(), 0u);
}

TEST_F(TraceLogTest, CountsWhatThereIsNoRoomForAndGoesOnWhenThereIs) {
  const auto log = TraceLog::Create(TracedJob(0, 1), Options());
  for (uint32_t c = 0; c < 6; ++c) Note(log.get(), c);
  EXPECT_EQ(log->waiting(), 4u);
  proto::TraceBatch batch = log->TakeBatch();
  EXPECT_EQ(batch.events_size(), 4);
  EXPECT_EQ(batch.dropped(), 2u);
  Note(log.get(), 6);
  batch = log->TakeBatch();
  ASSERT_EQ(batch.events_size(), 1);
  EXPECT_EQ(batch.events(0).chunk(), 6u);
  EXPECT_EQ(batch.dropped(), 0u);
}

TEST_F(TraceLogTest, RecordsNoMoreThanItsShareOfAJob) {
  const auto log = TraceLog::Create(TracedJob(0, 1), Options());
  uint64_t taken = 0, dropped = 0;
  for (uint32_t c = 0; c < 25; ++c) {
    Note(log.get(), c);
    const proto::TraceBatch batch = log->TakeBatch();
    taken += batch.events_size();
    dropped += batch.dropped();
  }
  EXPECT_EQ(taken, 10u);
  EXPECT_EQ(dropped, 15u);
}

TEST_F(TraceLogTest, BatchesAreBoundedAndKeepTheOrder) {
  TraceLog::Options options;
  options.waiting_max = kTraceEventsPerBatchMax + 10;
  const auto log = TraceLog::Create(TracedJob(0, 1), options);
  uint32_t next = 0, expected = 0;
  const auto take = [&](size_t count) {
    const proto::TraceBatch batch = log->TakeBatch();
    ASSERT_EQ(batch.events_size(), static_cast<int>(count));
    for (const TraceEvent& event : batch.events()) EXPECT_EQ(event.chunk(), expected++);
  };
  while (next < options.waiting_max) Note(log.get(), next++);
  take(kTraceEventsPerBatchMax);
  // Freed slots are reused, without more memory.
  for (int i = 0; i < 30; ++i) Note(log.get(), next++);
  EXPECT_EQ(log->waiting(), 40u);
  take(40);
  EXPECT_EQ(expected, next);
  EXPECT_EQ(log->memory_bytes(), options.waiting_max * 32);
}

TEST_F(TraceLogTest, ASpanNotesFromItsBeginningToItsEnd) {
  const auto log = TraceLog::Create(TracedJob(2, 1), Options());
  {
    TraceSpan span(log.get(), TraceEvent::APPLY, ChunkId(5), 2, 1);
    now_ += absl::Microseconds(70);
  }
  const proto::TraceBatch batch = log->TakeBatch();
  ASSERT_EQ(batch.events_size(), 1);
  EXPECT_EQ(batch.events(0).phase(), TraceEvent::APPLY);
  EXPECT_EQ(batch.events(0).start_us(), 1'000'000u);
  EXPECT_EQ(batch.events(0).duration_us(), 70u);
  EXPECT_EQ(batch.events(0).node(), 1u);
}

TEST_F(TraceLogTest, ASpanOfAnotherClockOrOfNoLogNotesNothing) {
  const auto log = TraceLog::Create(TracedJob(2, 1), Options());
  { TraceSpan span(log.get(), TraceEvent::APPLY, ChunkId(5), 1); }
  { TraceSpan span(nullptr, TraceEvent::APPLY, ChunkId(5), 2); }
  EXPECT_FALSE(log->has_news());
}

}  // namespace
}  // namespace strata
