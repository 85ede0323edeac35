#include "common/require.h"

#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(RequireTest, AConditionThatHoldsIsEvaluatedOnceAndNothingElseHappens) {
  int evaluated = 0;
  STRATA_REQUIRE(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(RequireDeathTest, AConditionThatDoesNotHoldAbortsWithItsTextAndPlace) {
  const int shards = 0;
  EXPECT_DEATH(STRATA_REQUIRE(shards > 0),
               "common/require_test.cc:[0-9]+: requirement failed: shards > 0");
}

}  // namespace
}  // namespace strata
