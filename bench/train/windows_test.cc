#include "bench/train/windows.h"

#include "gtest/gtest.h"

namespace strata::bench {
namespace {

TEST(RatesOfTest, AreThoseOfTheWindowsAfterTheFirst) {
  EXPECT_EQ(*RatesOf("{\"step\":5,\"samples_per_s\":10.0}\n"
                     "{\"step\":10,\"samples_per_s\":200.5}\n"
                     "{\"step\":15,\"samples_per_s\":300}\n"
                     "{\"step\":15,\"samples_per_s\":0.0,\"final\":true}\n"),
            (std::vector<double>{200.5, 300}));
}

TEST(RatesOfTest, OneWindowIsTooFew) {
  EXPECT_EQ(RatesOf("{\"samples_per_s\":10.0}\n").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(RatesOf("").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RatesOfTest, WhatIsNoRecordIsAnError) {
  for (const char* line : {"{", "3", "{\"samples_per_s\":\"fast\"}", "{}"}) {
    EXPECT_EQ(RatesOf(line).status().code(), absl::StatusCode::kInvalidArgument) << line;
  }
}

}  // namespace
}  // namespace strata::bench
