#include "cli/checkpoint/range_cover.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace strata::cli {
namespace {

TEST(RangeCover, TakesRangesInAnyOrderThatCoverTheArenaOnce) {
  RangeCover cover(10);
  EXPECT_TRUE(cover.Add(8, 2, "b").ok());
  EXPECT_TRUE(cover.Add(0, 5, "a").ok());
  EXPECT_EQ(cover.ExpectAll("all").message(), "all: elements 5 to 7 are in no object");
  EXPECT_TRUE(cover.Add(5, 3, "b").ok());
  EXPECT_TRUE(cover.ExpectAll("all").ok());
}

TEST(RangeCover, NamesTheObjectsThatHaveOneElementTwice) {
  RangeCover cover(10);
  ASSERT_TRUE(cover.Add(3, 3, "a").ok());
  EXPECT_EQ(cover.Add(5, 2, "b").message(), "b: has element 5, which a has, too");
  EXPECT_EQ(cover.Add(0, 4, "c").message(), "c: has element 3, which a has, too");
  EXPECT_EQ(cover.Add(3, 3, "d").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(cover.ExpectAll("all").message(), "all: elements 0 to 2 are in no object");
}

TEST(RangeCover, RefusesWhatIsBeyondTheArena) {
  RangeCover cover(10);
  EXPECT_EQ(cover.Add(8, 3, "a").message(), "a: 3 elements from element 8 on, but the job has 10");
  EXPECT_FALSE(cover.Add(UINT64_MAX, 2, "a").ok());
  EXPECT_FALSE(cover.Add(1, UINT64_MAX, "a").ok());
  EXPECT_FALSE(cover.Add(1, 0, "a").ok());
  EXPECT_EQ(cover.ExpectAll("all").message(), "all: elements 0 to 9 are in no object");
}

}  // namespace
}  // namespace strata::cli
