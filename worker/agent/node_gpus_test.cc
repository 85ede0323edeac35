#include "worker/agent/node_gpus.h"

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

constexpr uint64_t kMiB = 1 << 20;

std::vector<proto::Gpu> TwoGpus() {
  std::vector<proto::Gpu> gpus(2);
  for (uint32_t i = 0; i < 2; ++i) {
    gpus[i].set_index(3 * i);
    gpus[i].set_name("H");
    gpus[i].set_memory_bytes((10 + i) * kMiB);
  }
  return gpus;
}

MemoryFormula Need(uint64_t mib) {
  MemoryFormula need;
  need.Add("weights", mib * kMiB);
  return need;
}

TEST(GpuLedger, AJobThatDoesNotFitOneOfItsGpusIsRefusedWithThatGpuAndAllFigures) {
  GpuLedger ledger(TwoGpus());
  EXPECT_EQ(ledger.limit_bytes(), 21 * kMiB);
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(2)}, {3, Need(7)}}).ok());
  EXPECT_EQ(
      ledger.Promise(JobId(2), {{0, Need(8)}, {3, Need(5)}}),
      absl::ResourceExhaustedError("GPU 3 (H): it needs up to 5.0 MiB: weights 5.0 MiB; other "
                                   "jobs are promised 7.0 MiB of its 11.0 MiB"));
  EXPECT_EQ(ledger.promised_bytes(JobId(2)), 0u) << "none of it";
  EXPECT_EQ(ledger.promised_bytes(), 9 * kMiB);
  EXPECT_TRUE(ledger.Promise(JobId(2), {{0, Need(8)}, {3, Need(4)}}).ok()) << "to the last byte";
  EXPECT_EQ(ledger.promised_bytes(), ledger.limit_bytes());
}

TEST(GpuLedger, ASecondPromiseReplacesTheFirstAndARefusedOneDoesNot) {
  GpuLedger ledger(TwoGpus());
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(6)}}).ok());
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(9)}}).ok());
  EXPECT_EQ(ledger.Promise(JobId(1), {{0, Need(11)}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger.promised_bytes(JobId(1)), 9 * kMiB);
}

TEST(GpuLedger, WhatAJobGivesBackOthersMayHave) {
  GpuLedger ledger(TwoGpus());
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(6)}}).ok());
  ASSERT_FALSE(ledger.Promise(JobId(2), {{0, Need(6)}}).ok());
  ledger.Release(JobId(1));
  ledger.Release(JobId(7));
  EXPECT_TRUE(ledger.Promise(JobId(2), {{0, Need(6)}}).ok());
}

TEST(GpuLedger, NeedsBeyondAllMemoryAndUnknownGpusAreRefused) {
  GpuLedger ledger(TwoGpus());
  MemoryFormula all;
  all.Add("weights", UINT64_MAX);
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(1)}}).ok());
  EXPECT_EQ(ledger.Promise(JobId(2), {{0, all}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger.Promise(JobId(2), {{1, Need(1)}}),
            absl::FailedPreconditionError("there is no GPU 1"));
}

}  // namespace

}  // namespace strata::worker
