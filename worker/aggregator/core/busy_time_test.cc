#include "worker/aggregator/core/busy_time.h"

#include <gtest/gtest.h>

namespace strata::worker {
namespace {

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(BusyTime, AddsUpWhatLiesBetweenBeginAndEnd) {
  BusyTime busy;
  EXPECT_EQ(busy.Total(At(5)), absl::ZeroDuration());
  busy.Set(true, At(10));
  busy.Set(true, At(11));
  EXPECT_EQ(busy.Total(At(13)), absl::Seconds(3));
  busy.Set(false, At(14));
  busy.Set(false, At(15));
  EXPECT_EQ(busy.Total(At(20)), absl::Seconds(4));
  busy.Set(true, At(20));
  EXPECT_EQ(busy.Total(At(21)), absl::Seconds(5));
}

}  // namespace
}  // namespace strata::worker
