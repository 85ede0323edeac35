#include "cli/checkpoint/verify_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "cli/checkpoint/made_store.h"

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class VerifyOne : public MadeStore {
 protected:
  // Reads the oldest checkpoint, and calls `meanwhile` before each of its objects.
  Verdict Verify(const std::function<void()>& meanwhile = [] {}) {
    const auto entries = ListCheckpoints(store());
    EXPECT_TRUE(entries.ok()) << entries.status();
    const auto verdict = VerifyCheckpoint(store(), entries->front(),
                                          [&](const ObjectFacts&, uint64_t) { meanwhile(); });
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    return *verdict;
  }
};

TEST_F(VerifyOne, SaysWhatIsWrongWithIt) {
  Make(2);
  EXPECT_EQ(Verify().kind, VerdictKind::kWhole);
  EXPECT_THAT(Verify().text, StartsWith("whole: 2 objects, "));
  Put(2, "shard-0", "short");
  EXPECT_EQ(Verify().kind, VerdictKind::kBroken);
  EXPECT_THAT(Verify().text, StartsWith("broken: " + PathOf(2, "shard-0") + ": 5 bytes"));
  Remove(2, "shard-0");
  EXPECT_EQ(Verify().kind, VerdictKind::kBroken);
  Remove(2, "manifest.json");
  EXPECT_EQ(Verify().kind, VerdictKind::kIncomplete);
  EXPECT_THAT(Verify().text, StartsWith("incomplete: 1 object, no manifest"));
}

TEST_F(VerifyOne, AnObjectThatGoesWhileItIsReadIsMissing) {
  Make(2);
  EXPECT_EQ(Verify([this] { std::filesystem::remove(PathOf(2, "shard-1")); }).kind,
            VerdictKind::kBroken);
}

// A job that goes on meanwhile removes its older checkpoints, the manifest first.
TEST_F(VerifyOne, ThatIsRemovedWhileItIsReadIsNotBroken) {
  Make(2);
  Make(4);
  const auto remove = [this] {
    for (const char* part : {"manifest.json", "shard-0", "shard-1"}) {
      std::filesystem::remove(PathOf(2, part));
    }
  };
  const Verdict verdict = Verify(remove);
  EXPECT_EQ(verdict.kind, VerdictKind::kRemoved);
  EXPECT_THAT(verdict.text, StartsWith("removed while it was read: " + PathOf(2, "shard-0")));
}

TEST_F(VerifyOne, WhatIsFoundBrokenIsToldWhereItIsRemovedThen) {
  Make(2);
  Put(2, "shard-0", "short");
  const Verdict verdict = Verify([this] { std::filesystem::remove(PathOf(2, "manifest.json")); });
  EXPECT_EQ(verdict.kind, VerdictKind::kRemoved);
  EXPECT_THAT(verdict.text, HasSubstr(": 5 bytes"));
}

TEST(VerdictCounts, AreGoodWithAWholeOneAndNoBrokenOne) {
  using Kinds = std::vector<VerdictKind>;
  constexpr auto kWhole = VerdictKind::kWhole, kIncomplete = VerdictKind::kIncomplete,
                 kBroken = VerdictKind::kBroken, kRemoved = VerdictKind::kRemoved;
  struct Case {
    Kinds kinds;
    bool are_good, are_outdated;
  };
  for (const Case& one : std::vector<Case>{{{}, false, false},
                                           {{kWhole}, true, false},
                                           {{kIncomplete}, false, false},
                                           {{kRemoved}, false, true},
                                           {{kWhole, kIncomplete}, true, false},
                                           {{kRemoved, kWhole}, true, false},
                                           {{kRemoved, kIncomplete}, false, true},
                                           {{kWhole, kBroken}, false, false},
                                           {{kRemoved, kBroken}, false, false}}) {
    VerdictCounts counts;
    for (const VerdictKind kind : one.kinds) counts.Add(kind);
    EXPECT_EQ(counts.all(), one.kinds.size());
    EXPECT_EQ(counts.AreGood(), one.are_good) << testing::PrintToString(one.kinds);
    EXPECT_EQ(counts.AreOutdated(), one.are_outdated) << testing::PrintToString(one.kinds);
  }
}

}  // namespace
}  // namespace strata::cli
