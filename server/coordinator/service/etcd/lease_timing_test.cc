#include "server/coordinator/service/etcd/lease_timing.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

constexpr absl::Duration kTtl = absl::Seconds(3);
const absl::Time kSent = absl::FromUnixSeconds(1000);

TEST(LeaseTimingTest, TheHolderStopsBeforeTheLeaseDoes) {
  const LeaseTiming timing(kTtl, kSent);
  EXPECT_EQ(timing.end(), kSent + absl::Milliseconds(2500));
  EXPECT_FALSE(timing.IsOver(timing.end() - absl::Nanoseconds(1)));
  EXPECT_TRUE(timing.IsOver(timing.end()));
}

TEST(LeaseTimingTest, ARefreshCountsFromWhenItWasSent) {
  LeaseTiming timing(kTtl, kSent);
  EXPECT_EQ(timing.next_refresh(), kSent + absl::Seconds(1));
  // Whenever its answer came.
  timing.Refreshed(kTtl, kSent + absl::Seconds(1));
  EXPECT_EQ(timing.end(), kSent + absl::Milliseconds(3500));
  EXPECT_EQ(timing.next_refresh(), kSent + absl::Seconds(2));
}

TEST(LeaseTimingTest, WhatEtcdGrantsCounts) {
  LeaseTiming timing(kTtl, kSent);
  timing.Refreshed(absl::Seconds(1), kSent + absl::Seconds(1));
  EXPECT_EQ(timing.end(),
            kSent + absl::Milliseconds(1000) + absl::Seconds(1) - absl::Seconds(1) / 6);
}

TEST(LeaseTimingTest, AFailedRefreshIsRepeatedSoonAndProlongsNothing) {
  LeaseTiming timing(kTtl, kSent);
  const absl::Time now = kSent + absl::Milliseconds(1700);
  timing.Failed(now);
  EXPECT_EQ(timing.next_refresh(), now + absl::Milliseconds(100));
  EXPECT_EQ(timing.end(), kSent + absl::Milliseconds(2500));
}

TEST(LeaseTimingTest, ARefreshIsAwaitedNoLongerThanTheLeaseIsBelievedIn) {
  const LeaseTiming timing(kTtl, kSent);
  EXPECT_EQ(timing.PatienceAt(kSent + absl::Seconds(1)), absl::Seconds(1));
  EXPECT_EQ(timing.PatienceAt(kSent + absl::Seconds(2)), absl::Milliseconds(500));
  EXPECT_EQ(timing.PatienceAt(kSent + absl::Seconds(3)), absl::ZeroDuration());
}

}  // namespace
}  // namespace strata::server
