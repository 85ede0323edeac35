#include "measure/exchange/figures.h"

#include <vector>

#include "gtest/gtest.h"

namespace strata::bench {
namespace {

TEST(FiguresTest, MedianAndP99AreStepsThatWereMeasured) {
  std::vector<double> steps;
  for (int i = 200; i >= 1; --i) steps.push_back(i);
  const Figures figures = MakeFigures(steps);
  EXPECT_EQ(figures.min_ms, 1);
  EXPECT_EQ(figures.median_ms, 100);
  EXPECT_EQ(figures.p99_ms, 198);
  EXPECT_EQ(MakeFigures({7}).p99_ms, 7);
  EXPECT_EQ(MakeFigures({}).median_ms, 0);
}

TEST(BoundTest, AServersLinkBindsWhereThereAreFewerServersThanNodes) {
  BoundInput input{.bytes = 1000, .nodes = 4, .servers = 4, .bytes_per_s = 1e6};
  EXPECT_EQ(BoundMs(input), 1);
  input.servers = 8;
  EXPECT_EQ(BoundMs(input), 1);
  input.servers = 2;
  EXPECT_EQ(BoundMs(input), 2);
}

TEST(BoundTest, ARingSendsEverythingButItsOwnShareTwice) {
  BoundInput input{.bytes = 1000, .nodes = 4, .servers = 0, .bytes_per_s = 1e6};
  EXPECT_EQ(BoundMs(input), 1.5);
  input.nodes = 2;
  EXPECT_EQ(BoundMs(input), 1);
}

TEST(BoundTest, OneLoopbackCarriesWhatAllSend) {
  BoundInput input{.bytes = 1000, .nodes = 2, .servers = 1, .bytes_per_s = 1e6};
  input.shares_one_host = true;
  EXPECT_EQ(BoundMs(input), 4);
  input.servers = 0;
  EXPECT_EQ(BoundMs(input), 2);
}

TEST(BoundTest, AnUnknownBandwidthGivesNone) { EXPECT_EQ(BoundMs({.bytes = 1000}), 0); }

TEST(FiguresTest, TheShareOfABoundIsTheMedianOverPairs) {
  EXPECT_EQ(BoundShare({8, 9, 5}, {10, 10, 10}), 0.8);
  EXPECT_EQ(BoundShare({}, {10}), 0);
}

}  // namespace
}  // namespace strata::bench
