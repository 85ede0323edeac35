#include "common/checkpoint/part_name.h"

#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(PartNameTest, NamesAreReadBack) {
  for (const PartKind kind : {PartKind::kShard, PartKind::kNode, PartKind::kRank}) {
    const PartName part{.kind = kind, .number = 12};
    EXPECT_EQ(ParsePartName("clock-00000000000000000040/" + ToText(part, 7, 3)), part);
  }
  EXPECT_EQ(ToText({.kind = PartKind::kNode, .number = 0}, 7, 3), "node-0-7.3");
}

TEST(PartNameTest, OtherNamesAreNone) {
  for (const char* name : {"manifest.json", "clock-1/shards-1-7.0", "clock-1/shard-x-7.0", "shard",
                           "shard-1-7.0-1", ""}) {
    EXPECT_FALSE(ParsePartName(name)) << name;
  }
}

}  // namespace
}  // namespace strata
