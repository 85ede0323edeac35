#include "cli/options/within.h"

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

// What the option says of such a value; empty: it takes it.
std::string Said(std::string value) { return Within(0.1, 3600)(value); }

TEST(Within, TakesNumbersOfTheRangeAlone) {
  for (const char* good : {"0.1", "1", "3600", "1e2"}) EXPECT_EQ(Said(good), "") << good;
  EXPECT_EQ(Said("0.05"), "Value 0.05 not in range 0.1 to 3600");
  for (const char* bad : {"nan", "-nan", "inf", "-1", "3600.5", "", "1x", "1e999"}) {
    EXPECT_NE(Said(bad), "") << bad;
  }
}

}  // namespace
}  // namespace strata::cli
