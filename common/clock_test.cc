#include "common/clock.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace strata
