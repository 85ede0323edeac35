#include "server/coordinator/service/etcd/seen_blocks.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

using Entry = SeenBlocks::Entry;
constexpr size_t kMax = SeenRegistrations::kMax;

// What etcd would hold.
class Stored {
 public:
  void Take(const SeenBlocks::Change& change) {
    values_.erase(values_.begin(), values_.lower_bound(change.first));
    for (const auto& [number, value] : change.blocks) values_[number] = value;
  }
  SeenBlocks Read() const {
    SeenBlocks blocks;
    for (const auto& [number, value] : values_) {
      EXPECT_TRUE(blocks.Restore(number, value).ok()) << number;
    }
    return blocks;
  }
  const std::map<uint64_t, std::string>& values() const { return values_; }

 private:
  std::map<uint64_t, std::string> values_;
};

std::vector<Entry> Range(uint64_t first, size_t count, uint32_t attempt) {
  std::vector<Entry> entries;
  for (uint64_t id = first; id < first + count; ++id) entries.push_back({id, attempt});
  return entries;
}

void ExpectEqual(const std::vector<Entry>& a, const std::vector<Entry>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].daemon_id, b[i].daemon_id) << i;
    ASSERT_EQ(a[i].attempt, b[i].attempt) << i;
  }
}

TEST(SeenBlocksTest, OneMoreRegistrationWritesOneBlock) {
  SeenBlocks blocks;
  Stored stored;
  stored.Take(blocks.Append(Range(1, 1000, 1)));
  EXPECT_EQ(stored.values().size(), 4);
  const SeenBlocks::Change change = blocks.Append({{7, 2}});
  EXPECT_EQ(change.blocks.size(), 1);
  EXPECT_LT(change.blocks.begin()->second.size(), 4096);
  stored.Take(change);
  const std::vector<Entry> newest = stored.Read().Newest();
  ASSERT_EQ(newest.size(), 1000);
  EXPECT_EQ(newest.back().daemon_id, 7);
  EXPECT_EQ(newest.back().attempt, 2);
}

TEST(SeenBlocksTest, WhatWasReadGoesOnWhereItStopped) {
  SeenBlocks blocks;
  Stored stored;
  for (uint64_t id = 1; id <= 600; ++id) {
    stored.Take(blocks.Append({{id, 1}}));
    blocks = stored.Read();
  }
  EXPECT_EQ(stored.values().size(), 3) << "blocks are filled";
  ExpectEqual(blocks.Newest(), Range(1, 600, 1));
}

TEST(SeenBlocksTest, TheOldestAreForgottenAndTheLogStaysShort) {
  SeenBlocks blocks;
  Stored stored;
  stored.Take(blocks.Append(Range(1, kMax, 1)));
  // The same hundred over and over, which push nobody out.
  for (uint32_t attempt = 2; attempt < 600; ++attempt) {
    stored.Take(blocks.Append(Range(1, 100, attempt)));
    EXPECT_LE(stored.values().size(), SeenBlocks::kLogMax / SeenBlocks::kBlockEntries + 1);
  }
  std::vector<Entry> expected = Range(101, kMax - 100, 1);
  for (const Entry& entry : Range(1, 100, 599)) expected.push_back(entry);
  ExpectEqual(stored.Read().Newest(), expected);
  stored.Take(blocks.Append({{1'000'000, 1}}));
  const std::vector<Entry> newest = stored.Read().Newest();
  ASSERT_EQ(newest.size(), kMax);
  EXPECT_EQ(newest.front().daemon_id, 102);
}

TEST(SeenBlocksTest, AChangeNeverHasMoreBlocksThanATransactionTakes) {
  SeenBlocks blocks;
  Stored stored;
  for (int times = 0; times < 5; ++times) {
    const SeenBlocks::Change change = blocks.Append(Range(1 + 7 * times, 3 * kMax, times));
    EXPECT_LE(change.blocks.size(), 65);
    stored.Take(change);
  }
  ExpectEqual(stored.Read().Newest(), Range(29 + 2 * kMax, kMax, 4));
}

TEST(SeenBlocksTest, ADamagedBlockIsNoticed) {
  SeenBlocks blocks;
  const std::string value = blocks.Append(Range(1, 3, 1)).blocks.begin()->second;
  EXPECT_EQ(SeenBlocks().Restore(1, value.substr(0, value.size() - 1)).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(SeenBlocks().Restore(1, "x").code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace strata::server
