#include "measure/train/windows.h"

#include "gtest/gtest.h"

namespace strata::bench {
namespace {

TEST(WindowsOfTest, RatesAreThoseOfTheWindowsAfterTheFirst) {
  const auto windows = ParseWindows(
      "{\"step\":5,\"samples\":50,\"loss\":2.5,\"samples_per_s\":10.0}\n"
      "{\"step\":10,\"samples\":100,\"loss\":2,\"samples_per_s\":200.5}\n"
      "{\"step\":15,\"samples\":150,\"loss\":1.5,\"samples_per_s\":300}\n"
      "{\"step\":16,\"samples\":160,\"loss\":1.0,\"samples_per_s\":0.0,"
      "\"final\":true}\n");
  EXPECT_EQ(windows->rates, (std::vector<double>{200.5, 300}));
  EXPECT_EQ(windows->samples, 160u);
  EXPECT_TRUE(windows->has_finite_losses);
}

TEST(WindowsOfTest, ALossThatIsNullIsNotFinite) {
  const auto windows = ParseWindows(
      "{\"samples\":50,\"loss\":2.5,\"samples_per_s\":10.0}\n"
      "{\"samples\":100,\"loss\":null,\"samples_per_s\":200.5}\n");
  EXPECT_FALSE(windows->has_finite_losses);
}

TEST(WindowsOfTest, OneWindowIsTooFew) {
  EXPECT_EQ(ParseWindows("{\"samples\":1,\"samples_per_s\":10.0}\n").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ParseWindows("").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(WindowsOfTest, WhatIsNoRecordIsAnError) {
  for (const char* line :
       {"{", "3", "{\"samples\":1,\"samples_per_s\":\"fast\"}", "{}", "{\"samples_per_s\":10.0}"}) {
    EXPECT_EQ(ParseWindows(line).status().code(), absl::StatusCode::kInvalidArgument) << line;
  }
}

}  // namespace
}  // namespace strata::bench
