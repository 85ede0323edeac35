#include "common/process/owned_timers.h"

#include <optional>
#include <string>

#include "common/process/event_loop.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

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
