#include "server/coordinator/jobs/trace_store.h"

#include <set>

#include "common/job/trace_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

proto::TraceBatch Batch(uint32_t job, uint32_t clock, int events = 1) {
  proto::TraceBatch batch;
  batch.set_job_id(job);
  batch.set_host("w0");
  batch.set_process("node 0 aggregator");
  for (int i = 0; i < events; ++i) {
    batch.add_events()->set_clock(clock);
    batch.mutable_events(i)->set_chunk(i);
  }
  return batch;
}

// The clock of each batch's first event; for dropped events, minus their number.
std::vector<int> Held(const TraceStore& store, uint32_t job) {
  std::vector<int> clocks;
  for (const auto& text : store.Find(JobId(job))) {
    proto::TraceBatch batch;
    EXPECT_TRUE(batch.ParseFromString(*text));
    EXPECT_EQ(batch.job_id(), job);
    if (batch.events().empty()) {
      EXPECT_EQ(batch.process(), "coordinator");
    }
    clocks.push_back(batch.events().empty() ? -static_cast<int>(batch.dropped())
                                            : static_cast<int>(batch.events(0).clock()));
  }
  return clocks;
}

class TraceStoreTest : public ::testing::Test {
 protected:
  TraceStore Store(size_t bytes_max) {
    return TraceStore([this](JobId job) { return ended_.contains(job.value()); }, bytes_max);
  }
  std::set<uint32_t> ended_;
};

TEST_F(TraceStoreTest, HoldsEachJobsBatchesInTheirOrder) {
  TraceStore store = Store(1 << 20);
  store.Add(Batch(1, 10));
  store.Add(Batch(2, 20));
  store.Add(Batch(1, 11));
  EXPECT_THAT(Held(store, 1), ElementsAre(10, 11));
  EXPECT_THAT(Held(store, 2), ElementsAre(20));
  EXPECT_THAT(Held(store, 3), IsEmpty());
}

TEST_F(TraceStoreTest, ABatchThatIsSaidAgainIsTakenOnce) {
  TraceStore store = Store(1 << 20);
  store.Add(Batch(1, 10));
  const size_t bytes = store.bytes();
  store.Add(Batch(1, 10));
  EXPECT_THAT(Held(store, 1), ElementsAre(10));
  EXPECT_EQ(store.bytes(), bytes);
}

TEST_F(TraceStoreTest, BatchesThatOnlySayWhatTheyLackAreCounted) {
  TraceStore store = Store(1 << 20);
  proto::TraceBatch lacking = Batch(1, 0, 0);
  lacking.set_dropped(7);
  store.Add(lacking);
  store.Add(lacking);
  EXPECT_THAT(Held(store, 1), ElementsAre(-14));
}

TEST_F(TraceStoreTest, KnowsWhichDaemonsHaveSaidAll) {
  TraceStore store = Store(1 << 20);
  proto::TraceBatch end = TraceEnd(1);
  end.set_host("w0");
  EXPECT_FALSE(store.HasAllFrom(JobId(1), "w0"));
  store.Add(Batch(1, 10));
  EXPECT_FALSE(store.HasAllFrom(JobId(1), "w0"));
  store.Add(end);
  EXPECT_TRUE(store.HasAllFrom(JobId(1), "w0"));
  EXPECT_FALSE(store.HasAllFrom(JobId(1), "w1"));
  EXPECT_FALSE(store.HasAllFrom(JobId(2), "w0"));
  EXPECT_THAT(Held(store, 1), ElementsAre(10)) << "the end is no event";
}

TEST_F(TraceStoreTest, TheTraceOfAnEndedJobMakesRoom) {
  TraceStore store = Store(1000);
  for (uint32_t clock = 0; clock < 3; ++clock) store.Add(Batch(1, clock, 2));
  ended_ = {1};
  for (uint32_t clock = 0; clock < 4; ++clock) store.Add(Batch(2, clock));
  EXPECT_THAT(Held(store, 1), ElementsAre(-6)) << "it is said how much is gone";
  EXPECT_THAT(Held(store, 2), ElementsAre(0, 1, 2, 3));
  EXPECT_LE(store.bytes(), store.bytes_max());
}

TEST_F(TraceStoreTest, WhatRunningJobsLeaveNoRoomForIsLeftOutAndCounted) {
  TraceStore store = Store(600);
  store.Add(Batch(1, 0));
  store.Add(Batch(2, 0));
  store.Add(Batch(2, 1));
  store.Add(Batch(2, 2, 3));
  EXPECT_THAT(Held(store, 1), ElementsAre(0));
  EXPECT_THAT(Held(store, 2), ElementsAre(0, 1, -3));
}

TEST_F(TraceStoreTest, WhatIsLeftOutTakesNoMemory) {
  TraceStore store = Store(600);
  for (uint32_t clock = 0; clock < 3; ++clock) store.Add(Batch(1, clock));
  const size_t bytes = store.bytes();
  for (uint32_t clock = 3; clock < 10; ++clock) store.Add(Batch(2, clock));
  EXPECT_EQ(store.bytes(), bytes);
  EXPECT_THAT(Held(store, 2), ElementsAre(-7));
  ended_ = {1};
  store.Add(Batch(2, 3));
  EXPECT_THAT(Held(store, 2), ElementsAre(3, -7))
      << "a batch that was left out is not remembered: said again, it finds the room";
}

TEST_F(TraceStoreTest, ABatchThatNeverFitsDoesNotMakeOthersGo) {
  TraceStore store = Store(600);
  store.Add(Batch(1, 0));
  ended_ = {1};
  store.Add(Batch(2, 1, 200));
  EXPECT_THAT(Held(store, 1), ElementsAre(0));
  EXPECT_THAT(Held(store, 2), ElementsAre(-200));
}

TEST_F(TraceStoreTest, RemembersABoundedNumberOfJobs) {
  TraceStore store = Store(1 << 20);
  for (uint32_t job = 1; job <= TraceStore::kJobsMax + 1; ++job) {
    store.Add(Batch(job, 0));
    ended_.insert(job);
  }
  EXPECT_THAT(Held(store, 1), IsEmpty());
  EXPECT_THAT(Held(store, 2), ElementsAre(0));
  EXPECT_THAT(Held(store, TraceStore::kJobsMax + 1), ElementsAre(0));
}

}  // namespace
}  // namespace strata::server
