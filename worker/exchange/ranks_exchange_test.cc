#include "worker/exchange/ranks_exchange.h"

#include "common/event_fd.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(RanksExchange, NobodyIsWaitedForWhenTrainingBegins) {
  const EventFd wake = *EventFd::Create();
  // If each waited, this would take five minutes.
  for (int i = 0; i < 300; ++i) {
    RanksExchange exchange(wake.fd(), 0);
    ASSERT_EQ(exchange.Start(), absl::OkStatus());
    ASSERT_EQ(exchange.Poll(absl::Seconds(1)), absl::OkStatus());
    ASSERT_EQ(exchange.phase(), Exchange::Phase::kTraining);
  }
}

TEST(RanksExchange, ItsDescriptorEndsAWait) {
  const EventFd wake = *EventFd::Create();
  RanksExchange exchange(wake.fd(), 0);
  ASSERT_EQ(exchange.Start(), absl::OkStatus());
  wake.Notify();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(exchange.Poll(absl::Seconds(1)), absl::OkStatus());
  ASSERT_EQ(exchange.Finish(3), absl::OkStatus());
  EXPECT_EQ(exchange.phase(), Exchange::Phase::kFinished);
}

}  // namespace
}  // namespace strata::worker
