#include "compare/sweep/halving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::pair<size_t, uint64_t>> Rungs(size_t points, uint32_t eta) {
  std::vector<std::pair<size_t, uint64_t>> rungs;
  for (const Rung& rung : PlanRungs(points, eta)) rungs.emplace_back(rung.points, rung.divisor);
  return rungs;
}

TEST(Halving, TheLastRungHasTheWholeBudgetAndAtLeastOnePoint) {
  EXPECT_THAT(Rungs(8, 2), ElementsAre(Pair(8, 8), Pair(4, 4), Pair(2, 2), Pair(1, 1)));
  EXPECT_THAT(Rungs(9, 3), ElementsAre(Pair(9, 9), Pair(3, 3), Pair(1, 1)));
  EXPECT_THAT(Rungs(6, 2), ElementsAre(Pair(6, 4), Pair(3, 2), Pair(1, 1)));
  EXPECT_THAT(Rungs(26, 3), ElementsAre(Pair(26, 9), Pair(8, 3), Pair(2, 1)));
}

TEST(Halving, FewPointsOrNoHalvingAreOneRung) {
  EXPECT_THAT(Rungs(6, 0), ElementsAre(Pair(6, 1)));
  EXPECT_THAT(Rungs(3, 4), ElementsAre(Pair(3, 1)));
  EXPECT_THAT(Rungs(1, 2), ElementsAre(Pair(1, 1)));
}

TEST(Halving, TheBestGoOnInTheirOrder) {
  EXPECT_THAT(BestPoints({0.5, 0.9, 0.7, 0.8}, 2), ElementsAre(1, 3));
  EXPECT_THAT(BestPoints({0.8, 0.5, 0.9}, 2), ElementsAre(0, 2));
  EXPECT_THAT(BestPoints({0.8, 0.5, 0.9}, 5), ElementsAre(0, 1, 2));
}

TEST(Halving, OfWhatIsToBeSmallTheLeastGoOn) {
  EXPECT_THAT(BestPoints({0.5, 0.9, std::nullopt, 0.8}, 2, /*less_is_better=*/true),
              ElementsAre(0, 3));
}

TEST(Halving, TheEarlierOfEqualsGoesOn) {
  EXPECT_THAT(BestPoints({0.5, 0.8, 0.8, 0.8}, 2), ElementsAre(1, 2));
}

TEST(Halving, FailedPointsGoOnOnlyWhereNoOthersAreLeft) {
  EXPECT_THAT(BestPoints({std::nullopt, 0.1, 0.0}, 2), ElementsAre(1, 2));
  EXPECT_THAT(BestPoints({std::nullopt, 0.1, std::nullopt}, 2), ElementsAre(0, 1));
}

}  // namespace
}  // namespace strata::compare
