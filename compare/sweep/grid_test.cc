#include "compare/sweep/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> NamesOf(const std::vector<std::string>& texts) {
  const auto variations = ParseVariations(texts);
  EXPECT_TRUE(variations.ok()) << variations.status();
  std::vector<std::string> names;
  if (!variations.ok()) return names;
  for (const GridPoint& point : MakeGrid(*variations)) names.push_back(point.name);
  return names;
}

std::string Refusal(const std::vector<std::string>& texts) {
  const auto status = ParseVariations(texts).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(Grid, IsTheCrossProductWithTheLastFieldFastest) {
  EXPECT_THAT(NamesOf({"schedule.base_lr=0.01, 0.1", "ranks=1,2,4"}),
              ElementsAre("schedule.base_lr=0.01+ranks=1", "schedule.base_lr=0.01+ranks=2",
                          "schedule.base_lr=0.01+ranks=4", "schedule.base_lr=0.1+ranks=1",
                          "schedule.base_lr=0.1+ranks=2", "schedule.base_lr=0.1+ranks=4"));
}

TEST(Grid, APointKnowsItsValuesAndSettings) {
  const auto variations = ParseVariations({"epochs=1", "schedule.base_lr=0.5"});
  ASSERT_TRUE(variations.ok()) << variations.status();
  const std::vector<GridPoint> points = MakeGrid(*variations);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_THAT(points[0].values, ElementsAre("1", "0.5"));
  EXPECT_THAT(points[0].settings, ElementsAre("epochs=1", "schedule.base_lr=0.5"));
}

TEST(Grid, CommasInBracketsAndQuotesBelongToTheValue) {
  EXPECT_THAT(NamesOf({"consistency={lazy {staleness: 1, quorum: 2}},{sync {}}"}),
              ElementsAre("consistency={lazy {staleness: 1, quorum: 2}}", "consistency={sync {}}"));
  EXPECT_THAT(NamesOf({"consistency.preset=\"f(1,2)\",g(3,4)"}),
              ElementsAre("consistency.preset=\"f(1,2)\"", "consistency.preset=g(3,4)"));
}

TEST(Grid, WhatIsNoGridIsRefusedInOneLine) {
  EXPECT_EQ(Refusal({"ranks"}),
            "\"ranks\": is not FIELD=V1,V2,..., as in schedule.base_lr=0.01,0.1");
  EXPECT_THAT(Refusal({"=1"}), HasSubstr("is not FIELD=V1,V2"));
  EXPECT_EQ(Refusal({"ranks="}), "\"ranks=\": has no values");
  EXPECT_EQ(Refusal({"ranks=1,,2"}), "\"ranks=1,,2\": an empty value between commas");
  EXPECT_EQ(Refusal({"ranks=1,2,1"}), "\"ranks=1,2,1\": value 1 is there twice");
  EXPECT_EQ(Refusal({"ranks=1,2", "epochs=1", "ranks=3"}),
            "ranks: is varied twice; all its values belong into one list");
  std::string many = "window=1";
  for (int i = 2; i <= 1025; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(Refusal({many}), "window: makes 1025 points, 1024 are allowed at most");
}

}  // namespace
}  // namespace strata::compare
