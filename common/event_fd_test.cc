#include "common/event_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <utility>

namespace strata {
namespace {

bool IsReadable(int fd) {
  pollfd item = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&item, 1, 0) == 1;
}

TEST(EventFd, IsReadableFromNotifyToDrain) {
  absl::StatusOr<EventFd> event = EventFd::Create();
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(IsReadable(event->fd()));
  EXPECT_FALSE(event->Drain());
  event->Notify();
  event->Notify();
  EXPECT_TRUE(IsReadable(event->fd()));
  EXPECT_TRUE(event->Drain());
  EXPECT_FALSE(IsReadable(event->fd()));
  EXPECT_FALSE(event->Drain());
}

TEST(EventFd, RingsThroughACopyOfTheDescriptor) {
  absl::StatusOr<EventFd> event = EventFd::Create();
  ASSERT_TRUE(event.ok());
  const EventFd copy = EventFd::Adopt(UniqueFd(dup(event->fd())));
  copy.Notify();
  EXPECT_TRUE(event->Drain());
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  absl::StatusOr<EventFd> event = EventFd::Create();
  ASSERT_TRUE(event.ok());
  UniqueFd first(dup(event->fd()));
  const int number = first.get();
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.get(), number);
  EXPECT_EQ(fcntl(number, F_GETFD) >= 0, true);
  second.Reset();
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace strata
