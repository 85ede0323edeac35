#include "common/testing/faulty_store.h"

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr uint64_t kSeeds = 200;

absl::Status Put(Store& store, const std::string& name, const std::string& content) {
  const absl::Span<const char> pieces[] = {
      absl::MakeConstSpan(content).first(content.size() / 2),
      absl::MakeConstSpan(content).subspan(content.size() / 2)};
  return store.Put(name, pieces);
}
absl::Status PutNew(Store& store, const std::string& name, const std::string& content) {
  const absl::Span<const char> piece(content);
  return store.PutNew(name, {&piece, 1});
}

TEST(FaultyStoreTest, WithoutFaultsItIsAStoreWhoseObjectsOutliveIt) {
  FaultyDisk disk(1, "disk");
  {
    const auto store = disk.Open();
    ASSERT_EQ(Put(*store, "a/x", "one"), absl::OkStatus());
    ASSERT_EQ(Put(*store, "a/y", "two"), absl::OkStatus());
    ASSERT_EQ(PutNew(*store, "b", "three"), absl::OkStatus());
    EXPECT_EQ(PutNew(*store, "b", "three"), absl::OkStatus()) << "it is this one";
    EXPECT_EQ(PutNew(*store, "b", "four").code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(Put(*store, "../b", "x").code(), absl::StatusCode::kInvalidArgument);
  }
  const auto store = disk.Open();
  EXPECT_THAT(*store->List(), ElementsAre("a/x", "a/y", "b"));
  const Bytes content = *store->Get("b");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(content.data()), content.size()), "three");
  EXPECT_EQ(store->Get("c").status(), absl::NotFoundError("disk/c: is not there"));
  ASSERT_EQ(store->DeleteFolder("a"), absl::OkStatus());
  ASSERT_EQ(store->Delete("a/x"), absl::OkStatus());
  EXPECT_THAT(disk.Contents(), ElementsAre(Pair("b", "three")));
}

TEST(FaultyStoreTest, CallsFailForAWhileAndWritesMayBeDoneAllTheSame) {
  std::set<bool> done;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FaultyDisk disk(seed, "disk");
    const auto store = disk.Open();
    disk.FailCalls(3, /*after=*/1);
    EXPECT_EQ(store->List().status(), absl::OkStatus());
    EXPECT_EQ(store->List().status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(store->Get("x").status(), absl::UnavailableError("disk/x: does not answer"));
    EXPECT_EQ(Put(*store, "x", "one").code(), absl::StatusCode::kUnavailable);
    done.insert(disk.Contents().contains("x"));
    EXPECT_EQ(disk.failed_calls(), 3u);
    EXPECT_EQ(Put(*store, "x", "two"), absl::OkStatus());
    EXPECT_THAT(disk.Contents(), ElementsAre(Pair("x", "two")));
  }
  EXPECT_THAT(done, ElementsAre(false, true));
}

TEST(FaultyStoreTest, AFullDiskTakesNothingUntilThereIsSpace) {
  FaultyDisk disk(1, "disk");
  const auto store = disk.Open();
  disk.FillUp(2);
  EXPECT_EQ(Put(*store, "x", "one"), absl::ResourceExhaustedError("disk/x: no space left"));
  EXPECT_EQ(store->List().status(), absl::OkStatus());
  EXPECT_EQ(PutNew(*store, "x", "one").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(disk.Contents(), IsEmpty());
  EXPECT_EQ(Put(*store, "x", "one"), absl::OkStatus());
}

TEST(FaultyStoreTest, ACrashWithinAPutLeavesOneOfAllThatADiskMay) {
  std::set<std::string> left;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FaultyDisk disk(seed, "disk");
    const auto store = disk.Open();
    ASSERT_EQ(Put(*store, "kept", "whole"), absl::OkStatus());
    ASSERT_EQ(Put(*store, "x", "old"), absl::OkStatus());
    disk.CrashAfter(1);
    ASSERT_EQ(Put(*store, "y", "whole"), absl::OkStatus());
    EXPECT_EQ(Put(*store, "x", "new"), absl::AbortedError("disk: the host has crashed"));
    EXPECT_TRUE(disk.crashed());
    EXPECT_EQ(store->List().status().code(), absl::StatusCode::kAborted);
    disk.Restart();
    const std::map<std::string, std::string> contents = disk.Contents();
    EXPECT_EQ(contents.at("kept"), "whole");
    EXPECT_EQ(contents.at("y"), "whole");
    left.insert(contents.contains("x") ? contents.at("x") : "nothing");
  }
  EXPECT_THAT(left, ElementsAre("", "n", "ne", "new", "nothing", "old"));
}

TEST(FaultyStoreTest, ACrashMayLoseWhatAPutThatFailedHadDone) {
  std::set<std::string> left;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FaultyDisk disk(seed, "disk");
    const auto store = disk.Open();
    disk.FailCalls(1);
    EXPECT_EQ(Put(*store, "x", "n").code(), absl::StatusCode::kUnavailable);
    if (disk.Contents().empty()) continue;
    disk.Crash();
    left.insert(disk.Contents().contains("x") ? disk.Contents().at("x") : "nothing");
  }
  EXPECT_THAT(left, ElementsAre("", "n", "nothing"));
}

TEST(FaultyStoreTest, ACrashMayUndoTheLastRemovalsButNotThoseBeforeAPut) {
  std::set<std::string> left;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FaultyDisk disk(seed, "disk");
    const auto store = disk.Open();
    for (const char* name : {"a", "b", "c"}) ASSERT_EQ(Put(*store, name, name), absl::OkStatus());
    ASSERT_EQ(store->Delete("a"), absl::OkStatus());
    ASSERT_EQ(Put(*store, "d", "d"), absl::OkStatus());
    ASSERT_EQ(store->Delete("b"), absl::OkStatus());
    ASSERT_EQ(store->Delete("c"), absl::OkStatus());
    disk.Crash();
    std::string names;
    for (const auto& [name, content] : disk.Contents()) names += name;
    left.insert(names);
  }
  EXPECT_THAT(left, ElementsAre("bcd", "cd", "d"));
}

TEST(FaultyStoreTest, ACrashWithinTheRemovalOfAFolderLeavesAnyOfItsObjects) {
  std::set<size_t> left;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FaultyDisk disk(seed, "disk");
    const auto store = disk.Open();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(Put(*store, absl::StrCat("f/", i), "x").ok());
    ASSERT_TRUE(Put(*store, "g", "x").ok());
    disk.CrashAfter(seed % 3);
    EXPECT_EQ(store->DeleteFolder("f").code(), absl::StatusCode::kAborted);
    EXPECT_TRUE(disk.Contents().contains("g"));
    left.insert(disk.Contents().size() - 1);
  }
  EXPECT_THAT(left, ElementsAre(0, 1, 2, 3));
}

TEST(FaultyStoreTest, DamageIsOneBitOrAnEndThatIsMissingUntilItIsWrittenAnew) {
  const std::string whole(32, '\0');
  size_t flipped = 0, cut = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FaultyDisk disk(seed, "disk");
    EXPECT_EQ(disk.Damage(), "");
    const auto store = disk.Open();
    ASSERT_EQ(Put(*store, "x", whole), absl::OkStatus());
    ASSERT_EQ(Put(*store, "y", whole), absl::OkStatus());
    ASSERT_EQ(disk.Damage("y"), "y");
    EXPECT_THAT(disk.Damaged(), ElementsAre("y"));
    const std::string found = disk.Contents().at("y");
    if (found.size() < whole.size()) {
      ++cut;
    } else {
      int bits = 0;
      for (const char byte : found) bits += __builtin_popcount(static_cast<unsigned char>(byte));
      EXPECT_EQ(bits, 1);
      ++flipped;
    }
    EXPECT_EQ(disk.Contents().at("x"), whole);
    ASSERT_EQ(Put(*store, "y", whole), absl::OkStatus());
    EXPECT_THAT(disk.Damaged(), IsEmpty());
  }
  EXPECT_GT(cut, kSeeds / 8);
  EXPECT_GT(flipped, kSeeds / 2);
}

TEST(FaultyStoreTest, ASeedDecidesAllOfItAndACalmDiskHasNoFaults) {
  const auto run = [](uint64_t seed) {
    FaultyDisk disk(seed, "disk");
    const auto store = disk.Open();
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(Put(*store, absl::StrCat("f/", i), "content").ok());
    }
    disk.Damage();
    disk.FailCalls(1);
    Put(*store, "g", "content").IgnoreError();
    disk.CrashAfter(3);
    store->DeleteFolder("f").IgnoreError();
    disk.Restart();
    const absl::Duration latency = disk.DrawLatency(absl::Seconds(1));
    EXPECT_LT(latency, absl::Seconds(1));
    return std::make_pair(disk.Contents(), latency);
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
  FaultyDisk disk(7, "disk");
  disk.FailCalls(9);
  disk.FillUp(9);
  disk.CrashAfter(0);
  disk.Calm();
  EXPECT_EQ(Put(*disk.Open(), "x", "one"), absl::OkStatus());
}

}  // namespace
}  // namespace strata
