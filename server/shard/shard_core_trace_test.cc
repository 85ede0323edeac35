// What a shard notes of a traced job, by a clock that goes on by 1 us with each look.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using transport::ConnectionId;

class ShardTraceTest : public ::testing::Test {
 protected:
  void Begin(const std::string& mode, const std::string& more = "trace { first_step: 1 steps: 1 }",
             uint32_t job = 7) {
    JobOptions options;
    options.job = job;
    options.elements = options.chunk_elements = 4;
    options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 } consistency { " + mode + " } ";
    options.job_text += more;
    record_ = MakeRecord(options);
    ASSERT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    for (uint32_t node : {0, 1}) nodes_[node] = shard_.Join(record_, node);
    shard_.Deliver(nodes_[0], InitFrame(record_, 0, 0, {0, 0, 0, 0}));
  }
  void Push(uint32_t node, uint64_t clock) {
    shard_.Deliver(nodes_[node], PushFrame(record_, node, 0, clock, {1, 1, 1, 1}, 4));
  }

  // "PHASE node clock begin+duration"
  std::vector<std::string> Events() {
    std::vector<std::string> events;
    for (const proto::TraceBatch& batch : shard_.core().TakeTraces()) {
      EXPECT_EQ(batch.job_id(), record_.job_id());
      for (const proto::TraceEvent& event : batch.events()) {
        EXPECT_EQ(event.chunk(), 0u);
        events.push_back(absl::StrFormat("%s %d %d %d+%d",
                                         proto::TraceEvent::Phase_Name(event.phase()), event.node(),
                                         event.clock(), event.start_us(), event.duration_us()));
      }
    }
    return events;
  }

  int64_t now_us_ = 0;
  ShardHarness shard_{[this] { return absl::FromUnixMicros(++now_us_); }};
  proto::JobRecord record_;
  ConnectionId nodes_[2];
};

TEST_F(ShardTraceTest, InSyncAPushWaitsForTheLastOneWhichIsAppliedAndAnswersBoth) {
  Begin("sync {}");
  Push(0, 0);
  Push(1, 0);
  EXPECT_THAT(Events(), IsEmpty()) << "step 0 is not traced";
  now_us_ = 100;
  Push(1, 1);  // at 101
  now_us_ = 200;
  Push(0, 1);  // at 201
  EXPECT_THAT(Events(),
              ElementsAre("APPLY 0 1 201+1", "SERVER_WAIT 0 1 201+0", "SERVER_WAIT 1 1 101+100"));
  Push(0, 2);
  Push(1, 2);
  EXPECT_THAT(Events(), IsEmpty());
}

TEST_F(ShardTraceTest, InAsyncEachPushIsAppliedAndAnsweredAtOnce) {
  Begin("async {}");
  Push(0, 0);
  now_us_ = 100;
  Push(0, 1);
  EXPECT_THAT(Events(), ElementsAre("APPLY 0 1 101+1", "SERVER_WAIT 0 1 101+0"));
}

TEST_F(ShardTraceTest, InLazyANodeAheadIsAnsweredBeforeItsPushIsApplied) {
  Begin("lazy { staleness: 1 }", "trace { steps: 1 }");
  now_us_ = 100;
  Push(0, 0);
  EXPECT_THAT(Events(), ElementsAre("SERVER_WAIT 0 0 101+0"));
  now_us_ = 200;
  Push(1, 0);
  EXPECT_THAT(Events(), ElementsAre("APPLY 1 0 201+1", "SERVER_WAIT 1 0 201+0"));
}

TEST_F(ShardTraceTest, ARepetitionDoesNotMakeTheWaitBeginAnew) {
  Begin("sync {}", "trace { steps: 1 }");
  now_us_ = 100;
  Push(0, 0);
  now_us_ = 200;
  Push(0, 0);
  now_us_ = 300;
  Push(1, 0);
  EXPECT_THAT(Events(),
              ElementsAre("APPLY 1 0 301+1", "SERVER_WAIT 0 0 101+200", "SERVER_WAIT 1 0 301+0"));
}

TEST_F(ShardTraceTest, EncodedAnswersShowWhatEncodingTakes) {
  Begin("async {}", "pull { codec: FP16 } trace { steps: 1 }");
  now_us_ = 100;
  Push(1, 0);
  EXPECT_THAT(Events(),
              ElementsAre("APPLY 1 0 101+1", "SERVER_WAIT 1 0 101+0", "ENCODE 1 0 103+1"));
}

TEST_F(ShardTraceTest, AJobThatIsNotTracedLeavesTheClockAlone) {
  Begin("sync {}", "");
  Push(0, 0);
  Push(1, 0);
  EXPECT_EQ(shard_.core().TraceOf(JobId(7)), nullptr);
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_EQ(now_us_, 0);
}

TEST_F(ShardTraceTest, JobsBesideATracedOneAreNotTraced) {
  Begin("async {}", "", 8);
  const proto::JobRecord untraced = record_;
  const ConnectionId node = nodes_[0];
  Begin("async {}", "trace { steps: 5 }", 7);
  shard_.Deliver(node, PushFrame(untraced, 0, 0, 0, {1, 1, 1, 1}, 4));
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_EQ(shard_.core().TraceOf(JobId(8)), nullptr);
  EXPECT_NE(shard_.core().TraceOf(JobId(7)), nullptr);
  std::vector<ShardAction> actions;
  shard_.core().Remove(JobId(7), &actions);
  EXPECT_EQ(shard_.core().TraceOf(JobId(7)), nullptr);
}

}  // namespace
}  // namespace strata::server
