#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/event_fd.h"
#include "common/random.h"
#include "common/require.h"

namespace strata {
namespace {

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock(absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now(), absl::FromUnixMillis(101500));
}

TEST(RealClock, MovesOnAndTellsTheTimeOfDay) {
  const RealClock clock;
  const absl::Time first = clock.Now();
  absl::SleepFor(absl::Milliseconds(1));
  EXPECT_GT(clock.Now(), first);
  EXPECT_LT(absl::AbsDuration(clock.Now() - absl::Now()), absl::Minutes(1));
}

TEST(Random, MixesAsSplitMix64Does) {
  // The first outputs of the published generator for the seed 0.
  EXPECT_EQ(MixBits(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(MixBits(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  std::vector<int> bins(10);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const float x = RandomUniform(RandomKey(7, 1), i);
    ASSERT_GE(x, 0.0f);
    ASSERT_LT(x, 1.0f);
    sum += x;
    ++bins[static_cast<int>(x * 10)];
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
  for (int count : bins) EXPECT_NEAR(count, 10000, 500);
}

TEST(Random, StreamsAndSeedsDiffer) {
  EXPECT_NE(RandomKey(1, 2), RandomKey(2, 1));
  EXPECT_NE(RandomKey(1, 2), RandomKey(1, 3));
  EXPECT_NE(RandomBits(RandomKey(1, 2), 0), RandomBits(RandomKey(1, 3), 0));
}

TEST(Random, BelowReachesEveryValueAndNoOther) {
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) {
    const uint64_t x = RandomBelow(5, i, 7);
    ASSERT_LT(x, 7u);
    ++seen[x];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 150);
}

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

TEST(RequireTest, AConditionThatHoldsIsEvaluatedOnceAndNothingElseHappens) {
  int evaluated = 0;
  STRATA_REQUIRE(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(RequireDeathTest, AConditionThatDoesNotHoldAbortsWithItsTextAndPlace) {
  const int shards = 0;
  EXPECT_DEATH(STRATA_REQUIRE(shards > 0),
               "common/common_test.cc:[0-9]+: requirement failed: shards > 0");
}

}  // namespace
}  // namespace strata
