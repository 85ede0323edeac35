#include "common/control/send_trace.h"

#include <vector>

#include "common/trace/trace_log.h"
#include "gtest/gtest.h"

namespace strata::control {
namespace {

class FakeSession final : public Session {
 public:
  absl::Status Start() override { return absl::OkStatus(); }
  void Send(proto::DaemonMessage message) override { sent.push_back(message.trace()); }
  Use use() override { return queued; }
  void Stop() override {}

  Use queued;
  std::vector<proto::TraceBatch> sent;
};

proto::TraceBatch Batch(uint32_t job, int events, uint64_t dropped = 0) {
  proto::TraceBatch batch;
  batch.set_job_id(job);
  batch.set_process("node 0 aggregator");
  batch.set_dropped(dropped);
  for (int i = 0; i < events; ++i) batch.add_events();
  return batch;
}

class TraceSenderTest : public ::testing::Test {
 protected:
  FakeSession session_;
  TraceSender sender_;
};

TEST_F(TraceSenderTest, WhereManyBytesWaitNothingIsSentAndTheNextBatchSaysHowMuchIsLacking) {
  session_.queued.bytes = kTraceQueuedBytesMax + 1;
  sender_.Send(Batch(1, 2, 5), &session_);
  sender_.Send(Batch(1, 1), &session_);
  EXPECT_TRUE(session_.sent.empty());
  session_.queued.bytes = kTraceQueuedBytesMax;
  sender_.Send(Batch(1, 2, 1), &session_);
  sender_.Send(Batch(1, 3), &session_);
  ASSERT_EQ(session_.sent.size(), 2u);
  EXPECT_EQ(session_.sent[0].events_size(), 2);
  EXPECT_EQ(session_.sent[0].dropped(), 9u);
  EXPECT_EQ(session_.sent[1].events_size(), 3);
  EXPECT_EQ(session_.sent[1].dropped(), 0u) << "it is said once";
}

TEST_F(TraceSenderTest, WhereManyMessagesWaitNothingIsSent) {
  session_.queued.messages = kTraceQueuedMessagesMax + 1;
  sender_.Send(Batch(1, 2), &session_);
  EXPECT_TRUE(session_.sent.empty());
  session_.queued.messages = kTraceQueuedMessagesMax;
  sender_.Send(Batch(1, 2), &session_);
  ASSERT_EQ(session_.sent.size(), 1u);
  EXPECT_EQ(session_.sent[0].dropped(), 2u);
}

TEST_F(TraceSenderTest, TheEndIsAlwaysSentAndBeforeItWhatItsJobLacks) {
  session_.queued.messages = kTraceQueuedMessagesMax + 1;
  sender_.Send(Batch(1, 2), &session_);
  sender_.Send(TraceEnd(2), &session_);
  ASSERT_EQ(session_.sent.size(), 1u);
  EXPECT_TRUE(IsTraceEnd(session_.sent[0]));
  EXPECT_EQ(session_.sent[0].job_id(), 2u);
  sender_.Send(TraceEnd(1), &session_);
  ASSERT_EQ(session_.sent.size(), 3u);
  EXPECT_EQ(session_.sent[1].job_id(), 1u);
  EXPECT_EQ(session_.sent[1].dropped(), 2u);
  EXPECT_FALSE(IsTraceEnd(session_.sent[1]));
  EXPECT_TRUE(IsTraceEnd(session_.sent[2]));
  EXPECT_EQ(session_.sent[2].job_id(), 1u);
}

}  // namespace
}  // namespace strata::control
