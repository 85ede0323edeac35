#include "worker/agent/gpu_slots.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using testing::ElementsAre;

TEST(GpuSlots, AJobsRanksSpreadOverTheGpus) {
  GpuSlots slots({0, 2}, 2);
  EXPECT_THAT(slots.Take(JobId(1), 3).value(), ElementsAre(0, 2, 0));
}

TEST(GpuSlots, TheLeastLoadedGpuComesFirstThenTheLowest) {
  GpuSlots slots({0, 1, 2}, 2);
  EXPECT_THAT(slots.Take(JobId(1), 2).value(), ElementsAre(0, 1));
  EXPECT_THAT(slots.Take(JobId(2), 2).value(), ElementsAre(2, 0));
  EXPECT_THAT(slots.Take(JobId(3), 2).value(), ElementsAre(1, 2));
}

TEST(GpuSlots, WhatIsTakenIsGivenBackWithItsJobOnly) {
  GpuSlots slots({0, 1}, 1);
  ASSERT_TRUE(slots.Take(JobId(1), 1).ok());
  ASSERT_THAT(slots.Take(JobId(2), 1).value(), ElementsAre(1));
  EXPECT_EQ(slots.Take(JobId(3), 1).status(),
            absl::UnavailableError("the job needs 1 GPU slot, 0 of 2 are free"));
  EXPECT_THAT(slots.TakenBy(JobId(2)), ElementsAre(1));
  EXPECT_THAT(slots.TakenBy(JobId(3)), ElementsAre());
  slots.Release(JobId(3));
  EXPECT_FALSE(slots.Take(JobId(3), 1).ok());
  slots.Release(JobId(1));
  slots.Release(JobId(1));
  EXPECT_THAT(slots.Take(JobId(3), 1).value(), ElementsAre(0));
  EXPECT_FALSE(slots.Take(JobId(4), 1).ok());
}

TEST(GpuSlots, MoreThanThereAreIsNoMatterOfWaiting) {
  EXPECT_EQ(GpuSlots({0}, 2).Take(JobId(1), 3).status(),
            absl::FailedPreconditionError("the job needs 3 GPU slots, this worker has 2"));
  EXPECT_EQ(GpuSlots({}, 1).Take(JobId(1), 1).status(),
            absl::FailedPreconditionError("the job needs 1 GPU slot, this worker has 0"));
}

}  // namespace
}  // namespace strata::worker
