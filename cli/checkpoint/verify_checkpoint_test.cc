#include "cli/checkpoint/verify_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/checkpoint/made_store.h"

namespace strata::cli {
namespace {

using ::testing::StartsWith;

class VerifyOne : public MadeStore {
 protected:
  // Of the oldest checkpoint; `meanwhile`: before an object is read.
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
  EXPECT_EQ(Verify().kind, Verdict::kWhole);
  EXPECT_THAT(Verify().text, StartsWith("whole: 2 objects, "));
  Put(2, "shard-0", "short");
  EXPECT_EQ(Verify().kind, Verdict::kBroken);
  EXPECT_THAT(Verify().text, StartsWith("broken: " + PathOf(2, "shard-0") + ": 5 bytes"));
  Remove(2, "shard-0");
  EXPECT_EQ(Verify().kind, Verdict::kBroken);
  Remove(2, "manifest.json");
  EXPECT_EQ(Verify().kind, Verdict::kIncomplete);
  EXPECT_THAT(Verify().text, StartsWith("incomplete: 1 object, no manifest"));
}

TEST_F(VerifyOne, AnObjectThatGoesWhileItIsReadIsMissing) {
  Make(2);
  EXPECT_EQ(Verify([this] { std::filesystem::remove(PathOf(2, "shard-1")); }).kind,
            Verdict::kBroken);
}

// As a job does that goes on meanwhile and has newer ones: the manifest first.
TEST_F(VerifyOne, WhatIsTakenAwayAsAWholeWhileItIsReadIsNotBroken) {
  Make(2);
  Make(4);
  const auto take_away = [this] {
    for (const char* part : {"manifest.json", "shard-0", "shard-1"}) {
      std::filesystem::remove(PathOf(2, part));
    }
  };
  const Verdict verdict = Verify(take_away);
  EXPECT_EQ(verdict.kind, Verdict::kRemoved);
  EXPECT_EQ(verdict.text, "removed while it was read");
}

}  // namespace
}  // namespace strata::cli
