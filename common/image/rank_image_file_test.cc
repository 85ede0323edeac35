#include "common/image/rank_image_file.h"

#include <gtest/gtest.h>

#include <string>

#include "common/image/image_bytes.h"

namespace strata {
namespace {

std::string File(const std::string& state) {
  return Joined(MakeRankImageFile({.rank = 258, .clock = 1ull << 40, .state = OwnBytes(state)}));
}

absl::Status Refused(const std::string& file) {
  return ParseRankImageFile(OwnBytes(file), "a/rank-258").status();
}

TEST(RankImageFileTest, IsReadAsItWasWritten) {
  for (const std::string& state : {std::string("abc\0d", 5), std::string()}) {
    const auto image = ParseRankImageFile(OwnBytes(File(state)), "a");
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->rank, 258u);
    EXPECT_EQ(image->clock, 1ull << 40);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(image->state.data()), image->state.size()),
              state);
  }
}

TEST(RankImageFileTest, HasItsFieldsWhereTheHeaderSays) {
  const std::string file = File("x");
  EXPECT_EQ(file.size(), kRankImageHead + 1);
  EXPECT_EQ(file.substr(0, 12), std::string("STRANK01\x02\x01\0\0", 12));
  EXPECT_EQ(file[16 + 5], '\x01');  // 2^40
  EXPECT_EQ(file[24], '\x01');
  EXPECT_EQ(file[64], 'x');
}

TEST(RankImageFileTest, WhatNoVersionWritesIsRefusedByName) {
  const std::string good = File("state");
  EXPECT_EQ(Refused(good.substr(0, 63)),
            absl::InvalidArgumentError("a/rank-258: is no state of a rank"));
  EXPECT_EQ(Refused("X" + good.substr(1)),
            absl::InvalidArgumentError("a/rank-258: is no state of a rank"));
  EXPECT_EQ(Refused(good.substr(0, good.size() - 1)),
            absl::InvalidArgumentError("a/rank-258: has 4 bytes of state, and says 5"));
  EXPECT_EQ(Refused(good + "."),
            absl::InvalidArgumentError("a/rank-258: has 6 bytes of state, and says 5"));
  for (const size_t at : {12, 15, 32, 63}) {
    std::string other = good;
    other[at] = 1;
    EXPECT_EQ(Refused(other),
              absl::InvalidArgumentError("a/rank-258: its head has bytes that no version writes"))
        << at;
  }
}

}  // namespace
}  // namespace strata
