#include "worker/agent/gpu_ledger.h"

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

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
