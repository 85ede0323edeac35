// What an exchange's driver and core note of the chunks of a traced job, on a simulated network.
#include <algorithm>
#include <map>
#include <utility>

#include "common/trace/trace_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/exchange/testing/all_reduce_world.h"

namespace strata::worker {
namespace {

using proto::TraceEvent;

// Two nodes, four chunks, five clocks of which the second and third are traced; the clock of the
// traces goes on by 1 us with each look, so no two events begin or end together.
class ExchangeTraceTest : public ::testing::Test {
 protected:
  void Run(const transport::SimFaults& faults = {}) {
    proto::Job job;
    job.mutable_trace()->set_first_step(1);
    job.mutable_trace()->set_steps(2);
    AllReduceWorld::Options options;
    options.clocks = 5;
    options.faults = faults;
    for (auto& log : logs_) {
      log = TraceLog::Create(job, {.now = [this] { return absl::FromUnixMicros(++now_us_); }});
      options.traces.push_back(log.get());
    }
    AllReduceWorld world(options);
    ASSERT_TRUE(world.Run());
    for (uint32_t node : {0, 1}) ASSERT_EQ(world.status(node), absl::OkStatus());
  }

  // By chunk and clock, as they were noted.
  std::map<std::pair<uint32_t, uint64_t>, std::vector<TraceEvent>> Events(uint32_t node) {
    std::map<std::pair<uint32_t, uint64_t>, std::vector<TraceEvent>> events;
    while (logs_[node]->has_news()) {
      const proto::TraceBatch batch = logs_[node]->TakeBatch();
      EXPECT_EQ(batch.dropped(), 0u);
      for (const TraceEvent& event : batch.events()) {
        events[{event.chunk(), event.clock()}].push_back(event);
      }
    }
    return events;
  }

  int64_t now_us_ = 0;
  std::unique_ptr<TraceLog> logs_[2];
};

// The first of a phase; each phase must be there.
const TraceEvent& First(const std::vector<TraceEvent>& events, TraceEvent::Phase phase) {
  const auto is_it = [&](const TraceEvent& event) { return event.phase() == phase; };
  const auto found = std::find_if(events.begin(), events.end(), is_it);
  EXPECT_NE(found, events.end()) << TraceEvent::Phase_Name(phase);
  return found == events.end() ? events.front() : *found;
}

uint64_t EndOf(const TraceEvent& event) { return event.start_us() + event.duration_us(); }

TEST_F(ExchangeTraceTest, EachChunkOfEachTracedClockGoesThroughAllPhasesInOrder) {
  Run();
  for (uint32_t node : {0, 1}) {
    const auto all = Events(node);
    EXPECT_EQ(all.size(), 4u * 2u) << "chunks x clocks, and no others";
    for (const auto& [key, events] : all) {
      EXPECT_THAT(key.second, testing::AnyOf(1u, 2u));
      const TraceEvent& ready = First(events, TraceEvent::READY);
      const TraceEvent& sum = First(events, TraceEvent::SUM);
      const TraceEvent& encode = First(events, TraceEvent::ENCODE);
      const TraceEvent& send = First(events, TraceEvent::SEND);
      const TraceEvent& apply = First(events, TraceEvent::APPLY);
      // Published once the weights of the clock before had landed; the first one once the job
      // began.
      const auto before = all.find({key.first, key.second - 1});
      EXPECT_GT(ready.start_us(), before == all.end() ? 0 : EndOf(before->second.back()));
      EXPECT_LT(EndOf(ready), sum.start_us());
      EXPECT_LT(EndOf(sum), encode.start_us());
      EXPECT_LE(EndOf(encode), send.start_us());
      EXPECT_GE(apply.start_us(), encode.start_us()) << "what came before may make it due at once";
      EXPECT_EQ(events.back().phase(), TraceEvent::DECODE);
      EXPECT_GT(events.back().start_us(), EndOf(apply));
      EXPECT_EQ(std::count_if(events.begin(), events.end(),
                              [](const TraceEvent& e) { return e.phase() == TraceEvent::APPLY; }),
                1);
    }
  }
}

TEST_F(ExchangeTraceTest, NothingIsNotedTwiceWhereFramesAreLostAndRepeated) {
  transport::SimFaults faults;
  faults.break_both = 0.02;
  Run(faults);
  for (const auto& [key, events] : Events(0)) {
    for (const TraceEvent::Phase once :
         {TraceEvent::READY, TraceEvent::SUM, TraceEvent::ENCODE, TraceEvent::APPLY}) {
      EXPECT_EQ(std::count_if(events.begin(), events.end(),
                              [&](const TraceEvent& e) { return e.phase() == once; }),
                1)
          << TraceEvent::Phase_Name(once);
    }
  }
}

}  // namespace
}  // namespace strata::worker
