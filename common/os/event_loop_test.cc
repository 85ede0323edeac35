#include "common/os/event_loop.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/os/limits.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(EventLoop, RunsClosuresOfOtherThreadsInOrderBeforeItStops) {
  EventLoop loop;
  std::vector<int> seen;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) loop.Post([&seen, i] { seen.push_back(i); });
    loop.Stop();
  });
  loop.Run();
  other.join();
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST(EventLoop, RunsTimersInTheOrderOfTheirTimes) {
  EventLoop loop;
  std::string seen;
  loop.After(absl::Milliseconds(20), [&] { loop.Stop(); });
  loop.After(absl::Milliseconds(10), [&] { seen += "b"; });
  loop.After(absl::ZeroDuration(), [&] { seen += "a"; });
  loop.Run();
  EXPECT_EQ(seen, "ab");
}

TEST(EventLoop, CallsBackWhenADescriptorIsReadableUntilItIsUnwatched) {
  EventLoop loop;
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  std::string seen;
  loop.Watch(fds[0], POLLIN, [&](short revents) {
    char byte = 0;
    ASSERT_TRUE(revents & POLLIN);
    ASSERT_EQ(read(fds[0], &byte, 1), 1);
    seen += byte;
    if (byte == 'y') {
      loop.Unwatch(fds[0]);
      loop.After(absl::Milliseconds(5), [&] { loop.Stop(); });
    }
  });
  ASSERT_EQ(write(fds[1], "xyz", 3), 3);
  loop.Run();
  EXPECT_EQ(seen, "xy");
  close(fds[0]);
  close(fds[1]);
}

TEST(EventLoop, WhoPostsTooMuchWaitsForTheLoop) {
  EventLoop loop;
  absl::Notification begun, go_on;
  std::thread runner([&] { loop.Run(); });
  loop.Post([&] {
    begun.Notify();
    go_on.WaitForNotification();
  });
  begun.WaitForNotification();
  std::atomic<size_t> posted = 0;
  std::atomic<size_t> ran = 0;
  constexpr size_t kPosts = 2 * kQueuedMessagesMax;
  std::thread poster([&] {
    for (size_t i = 0; i < kPosts; ++i) {
      loop.Post([&] { ++ran; });
      ++posted;
    }
  });
  while (posted < kQueuedMessagesMax) std::this_thread::yield();
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(posted, kQueuedMessagesMax);
  go_on.Notify();
  poster.join();
  loop.Stop();
  runner.join();
  EXPECT_EQ(ran, kPosts);
}

TEST(OwnedTimers, RunEachClosureOnce) {
  EventLoop loop;
  OwnedTimers timers(&loop);
  std::string seen;
  timers.After(absl::ZeroDuration(), [&] { seen += "a"; });
  timers.After(absl::Milliseconds(10), [&] { seen += "b"; });
  loop.After(absl::Milliseconds(20), [&] { loop.Stop(); });
  loop.Run();
  EXPECT_EQ(seen, "ab");
}

TEST(OwnedTimers, RunNoClosureOnceTheyAreGone) {
  EventLoop loop;
  std::optional<OwnedTimers<EventLoop>> timers(&loop);
  OwnedTimers others(&loop);
  std::string seen;
  timers->After(absl::ZeroDuration(), [&] {
    seen += "a";
    timers.reset();
  });
  timers->After(absl::Milliseconds(5), [&] { seen += "b"; });
  others.After(absl::Milliseconds(5), [&] { seen += "c"; });
  loop.After(absl::Milliseconds(20), [&] { loop.Stop(); });
  loop.Run();
  EXPECT_EQ(seen, "ac");
}

TEST(OwnedTimers, RunNoClosureOnceTheyAreCancelled) {
  EventLoop loop;
  OwnedTimers timers(&loop);
  std::string seen;
  timers.After(absl::ZeroDuration(), [&] {
    seen += "a";
    timers.Cancel();
    timers.After(absl::Milliseconds(5), [&] { seen += "b"; });
  });
  timers.After(absl::Milliseconds(5), [&] { seen += "c"; });
  loop.After(absl::Milliseconds(20), [&] { loop.Stop(); });
  loop.Run();
  EXPECT_EQ(seen, "a");
}

}  // namespace
}  // namespace strata
