#include "common/limits/memory_ledger.h"

#include "gtest/gtest.h"

namespace strata {
namespace {

MemoryFormula Need(uint64_t bytes) {
  MemoryFormula need;
  need.Add("weights", bytes);
  return need;
}

TEST(MemoryLedger, PromisesUpToTheLimitAndNotAByteMore) {
  MemoryLedger ledger(100);
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(60)).ok());
  EXPECT_EQ(ledger.Promise(JobId(2), Need(41)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger.promised_bytes(), 60u);
  EXPECT_TRUE(ledger.Promise(JobId(2), Need(40)).ok());
  EXPECT_EQ(ledger.promised_bytes(), 100u);
}

TEST(MemoryLedger, WhatAJobGivesBackCanBePromisedAgain) {
  MemoryLedger ledger(100);
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(100)).ok());
  ledger.Release(JobId(1));
  EXPECT_TRUE(ledger.Promise(JobId(2), Need(100)).ok());
  EXPECT_EQ(ledger.promised_bytes(JobId(1)), 0u);
}

TEST(MemoryLedger, ASecondPromiseToAJobReplacesTheFirst) {
  MemoryLedger ledger(100);
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(60)).ok());
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(90)).ok());
  EXPECT_EQ(ledger.promised_bytes(), 90u);
}

TEST(MemoryLedger, ARefusalGivesFormulaFigureAndLimit) {
  MemoryLedger ledger(3 << 20);
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(1 << 20)).ok());
  MemoryFormula need = Need(2 << 20);
  need.Add("held sums (3 - 1) x 4 x 64.0 KiB", 512 << 10);
  EXPECT_EQ(ledger.Promise(JobId(2), need).message(),
            "it needs up to 2.5 MiB: weights 2.0 MiB + held sums (3 - 1) x 4 x 64.0 KiB 512.0 KiB; "
            "other jobs are promised 1.0 MiB of the limit of 3.0 MiB (--memory-limit)");
}

TEST(MemoryLedger, SumsBeyond64BitsDoNotWrapAround) {
  MemoryLedger ledger(100);
  MemoryFormula need = Need(UINT64_MAX);
  need.Add("more", 10);
  EXPECT_EQ(need.total(), UINT64_MAX);
  EXPECT_FALSE(ledger.Promise(JobId(1), need).ok());
  EXPECT_EQ(SaturatingProduct(uint64_t{1} << 40, uint64_t{1} << 40), UINT64_MAX);
  EXPECT_EQ(SaturatingProduct(0, UINT64_MAX), 0u);
}

TEST(ParseBytes, TakesUnitsAndPlainNumbers) {
  EXPECT_EQ(*ParseBytes("8GiB"), uint64_t{8} << 30);
  EXPECT_EQ(*ParseBytes("0.5 MiB"), uint64_t{512} << 10);
  EXPECT_EQ(*ParseBytes("12345"), 12345u);
  for (const char* bad : {"", "8GB", "-1MiB", "GiB", "nan", "1e30TiB"}) {
    EXPECT_EQ(ParseBytes(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace strata
