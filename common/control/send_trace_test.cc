#include "common/control/send_trace.h"

#include <vector>

#include "gtest/gtest.h"

namespace strata::control {
namespace {

class FakeSession final : public Session {
 public:
  absl::Status Start() override { return absl::OkStatus(); }
  void Send(proto::DaemonMessage message) override { sent.push_back(std::move(message)); }
  Use use() override { return queued; }
  void Stop() override {}

  Use queued;
  std::vector<proto::DaemonMessage> sent;
};

TEST(SendTrace, SaysOnlyHowManyEventsThereWereWhereMuchWaits) {
  proto::TraceBatch batch;
  batch.set_process("node 0 aggregator");
  batch.set_dropped(5);
  batch.add_events();
  batch.add_events();
  FakeSession session;
  session.queued.bytes = kTraceQueuedBytesMax;
  SendTrace(batch, &session);
  session.queued.bytes = kTraceQueuedBytesMax + 1;
  SendTrace(batch, &session);
  ASSERT_EQ(session.sent.size(), 2u);
  EXPECT_EQ(session.sent[0].trace().events_size(), 2);
  EXPECT_EQ(session.sent[0].trace().dropped(), 5u);
  EXPECT_EQ(session.sent[1].trace().events_size(), 0);
  EXPECT_EQ(session.sent[1].trace().dropped(), 7u);
  EXPECT_EQ(session.sent[1].trace().process(), "node 0 aggregator");
}

}  // namespace
}  // namespace strata::control
