#include "server/coordinator/service/etcd/split_value.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

std::string Bytes(size_t bytes) { return std::string(bytes, 'x'); }

std::string Joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

absl::StatusOr<std::string> Read(const SplitValue& value) {
  const auto head = ParseHead(value.head);
  if (!head.ok()) return head.status();
  return Join(*head, Joined(value.parts));
}

TEST(SplitValueTest, WhatIsSmallIsOneValue) {
  const SplitValue value = Split(Bytes(1000), "set");
  EXPECT_TRUE(value.parts.empty());
  EXPECT_EQ(*Read(value), Bytes(1000));
}

TEST(SplitValueTest, NothingIsAValueToo) {
  const SplitValue value = Split("", "set");
  ASSERT_TRUE(Read(value).ok()) << Read(value).status();
  EXPECT_EQ(*Read(value), "");
}

TEST(SplitValueTest, WhatIsLargeIsInPartsThatNoRequestIsTooSmallFor) {
  const SplitValue value = Split(Bytes((5 << 20) + 1), "set");
  ASSERT_EQ(value.parts.size(), 6);
  for (const std::string& part : value.parts) EXPECT_LE(part.size(), 1 << 20);
  EXPECT_LT(value.head.size(), 100);
  EXPECT_EQ(ParseHead(value.head)->part_set(), "set");
  EXPECT_EQ(*Read(value), Bytes((5 << 20) + 1));
}

TEST(SplitValueTest, TheLargestWholeIsOneValueAndAByteMoreTwoParts) {
  EXPECT_EQ(Split(Bytes(SplitValue::kPartBytes), "set").parts.size(), 0);
  EXPECT_EQ(Split(Bytes(SplitValue::kPartBytes + 1), "set").parts.size(), 2);
}

TEST(SplitValueTest, AnyChangedBitOfAHeadIsNoticedOrChangesNothing) {
  const SplitValue value = Split(Bytes(20), "set");
  int noticed = 0;
  for (size_t bit = 0; bit < value.head.size() * 8; ++bit) {
    SplitValue damaged = value;
    damaged.head[bit / 8] ^= 1 << bit % 8;
    const auto read = Read(damaged);
    if (read.ok()) {
      EXPECT_EQ(*read, Bytes(20)) << bit;
    } else {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << bit;
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 0);
}

TEST(SplitValueTest, AMissingAndAChangedPartAreNoticed) {
  SplitValue value = Split(Bytes(3 << 20), "set");
  value.parts[1][5] ^= 1;
  EXPECT_EQ(Read(value).status(), absl::DataLossError("is damaged: its hash is another one"));
  value.parts.pop_back();
  EXPECT_EQ(Read(value).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace strata::server
