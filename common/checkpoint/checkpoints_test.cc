#include "common/checkpoint/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/checkpoint/file_store.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The name as the store gives it.
std::string Folder(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / name).lexically_normal().string();
}

class OnFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    store_ = *FileStore::Open(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Puts an object and returns its facts.
  ObjectFacts Put(uint64_t clock, const std::string& part, const std::string& text) {
    const absl::Span<const char> piece(text);
    const std::string name = Checkpoints::ObjectName(clock, part);
    EXPECT_TRUE(store_->Put(name, {&piece, 1}).ok());
    return FactsOf(name, {&piece, 1});
  }
  Manifest Write(uint64_t clock) {
    Manifest manifest = {.job = 1,
                         .job_name = "j",
                         .clock = clock,
                         .written = absl::FromUnixSeconds(10),
                         .record = "r",
                         .objects = {Put(clock, "a", "first of " + std::to_string(clock)),
                                     Put(clock, "b", "second of " + std::to_string(clock))}};
    EXPECT_TRUE(Checkpoints(*store_).Complete(manifest).ok());
    return manifest;
  }
  // Returns the clock of the newest one; 0: there is none.
  uint64_t Newest(std::vector<absl::Status>* passed_over) {
    const auto manifest = Checkpoints(*store_).Newest(passed_over);
    if (manifest.ok()) return manifest->clock;
    EXPECT_EQ(manifest.status().code(), absl::StatusCode::kNotFound);
    return 0;
  }
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_ = Folder("checkpoints_test");
  std::unique_ptr<FileStore> store_;
};

TEST_F(OnFiles, TheNewestCompleteOneIsTaken) {
  std::vector<absl::Status> passed_over;
  EXPECT_EQ(Newest(&passed_over), 0u);
  Write(900);
  Write(1000);
  Put(1100, "a", "never completed");
  EXPECT_EQ(Newest(&passed_over), 1000u);
  EXPECT_THAT(passed_over, IsEmpty());
  const auto listing = Checkpoints(*store_).List();
  ASSERT_EQ(listing->complete.size(), 2u);
  EXPECT_EQ(listing->complete[0].clock, 1000u);
  EXPECT_EQ(listing->complete[1].clock, 900u);
}

TEST_F(OnFiles, NoManifestIsOverwritten) {
  Manifest manifest = Write(900);
  const Manifest before = manifest;
  manifest.record = "another";
  const absl::Status status = Checkpoints(*store_).Complete(manifest);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_THAT(Checkpoints(*store_).List()->complete, ElementsAre(before));
}

// Whichever byte of whichever file is changed or missing, the checkpoint is refused by name, and
// the previous one is used.
TEST_F(OnFiles, ADamagedOneIsPassedOverAndNamed) {
  Write(900);
  Write(1000);
  size_t damages = 0;
  for (const std::string part : {"manifest.json", "a", "b"}) {
    const std::string path = PathOf(Checkpoints::ObjectName(1000, part));
    std::string content;
    {
      std::ifstream file(path, std::ios::binary);
      content.assign(std::istreambuf_iterator<char>(file), {});
    }
    const auto expect_passed_over = [&](const std::string& damaged) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
      std::vector<absl::Status> passed_over;
      ASSERT_EQ(Newest(&passed_over), 900u) << path;
      ASSERT_EQ(passed_over.size(), 1u);
      ASSERT_THAT(std::string(passed_over[0].message()), HasSubstr(path + ": "));
      ++damages;
    };
    for (size_t i = 0; i < content.size(); ++i) {
      std::string flipped = content;
      flipped[i] ^= 1 << (i % 8);
      expect_passed_over(flipped);
      expect_passed_over(content.substr(0, i));
    }
    expect_passed_over(content + "x");
    std::filesystem::remove(path);
    std::vector<absl::Status> passed_over;
    EXPECT_EQ(Newest(&passed_over), 900u);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    EXPECT_EQ(Newest(&passed_over), 1000u);
  }
  EXPECT_GT(damages, 500u);
}

// Damage that the reader of the pieces stumbles over is reported as damage; other errors of the
// reader are its own.
TEST_F(OnFiles, AReaderInPiecesHearsOfDamageFirst) {
  Write(1000);
  const Manifest manifest = Checkpoints(*store_).List()->complete.at(0);
  const ObjectFacts object = manifest.objects.at(0);
  absl::Status answer;
  int calls = 0;
  const auto read = [&] {
    return Checkpoints(*store_).Read(object, [&](uint64_t, absl::Span<const char>) {
      ++calls;
      return answer;
    });
  };
  EXPECT_EQ(read(), absl::OkStatus());
  answer = absl::InvalidArgumentError("not what I know");
  EXPECT_EQ(read(), answer) << "it is whole, and still not that";
  std::string content(object.bytes, '?');
  std::ofstream(PathOf(object.name), std::ios::binary | std::ios::trunc) << content;
  EXPECT_EQ(read().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read().message()), HasSubstr(object.name + ": checksum "));
  answer = absl::CancelledError("has ended");
  EXPECT_EQ(read(), answer);
  calls = 0;
  std::ofstream(PathOf(object.name), std::ios::binary | std::ios::trunc) << content << "x";
  EXPECT_EQ(read().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(calls, 0) << "of another size";
}

TEST_F(OnFiles, AManifestOfAnotherClockIsNone) {
  Write(900);
  std::filesystem::create_directories(PathOf(Checkpoints::ObjectName(1000, "")));
  std::filesystem::copy(PathOf(Checkpoints::ObjectName(900, "manifest.json")),
                        PathOf(Checkpoints::ObjectName(1000, "manifest.json")));
  std::vector<absl::Status> passed_over;
  EXPECT_EQ(Newest(&passed_over), 900u);
  ASSERT_EQ(passed_over.size(), 1u);
  EXPECT_THAT(std::string(passed_over[0].message()), HasSubstr("it is the manifest of clock 900"));
}

TEST_F(OnFiles, OldOnesAndWhatWasNeverCompleteAreDeleted) {
  Put(50, "a", "never completed");
  for (const uint64_t clock : {100, 200, 300}) Write(clock);
  Put(400, "a", "not complete yet");
  std::ofstream(folder_ + "/notes.txt") << "the user's own";
  Checkpoints checkpoints(*store_);
  ASSERT_TRUE(checkpoints.Prune(2).ok());
  EXPECT_THAT(
      *store_->List(),
      ElementsAre(Checkpoints::ObjectName(200, "a"), Checkpoints::ObjectName(200, "b"),
                  Checkpoints::ObjectName(200, "manifest.json"), Checkpoints::ObjectName(300, "a"),
                  Checkpoints::ObjectName(300, "b"), Checkpoints::ObjectName(300, "manifest.json"),
                  Checkpoints::ObjectName(400, "a"), "notes.txt"));
}

// A sparse file takes no space on disk, but would take its size in memory.
TEST_F(OnFiles, AManifestOfAnySizeTakesNoMemory) {
  Write(5);
  const std::string path = PathOf(Checkpoints::ObjectName(6, "manifest.json"));
  std::filesystem::create_directories(PathOf(Checkpoints::ObjectName(6, "")));
  std::ofstream(path) << "{";
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  std::vector<absl::Status> passed_over;
  EXPECT_EQ(Newest(&passed_over), 5u);
  EXPECT_THAT(passed_over,
              ElementsAre(absl::InvalidArgumentError(path + ": larger than 67108864 bytes")));
}

// The same for a part, if its manifest says what the job has written.
TEST_F(OnFiles, APartThatHasGrownTakesNoMemory) {
  const Manifest manifest = Write(5);
  const ObjectFacts& object = manifest.objects[0];
  std::filesystem::resize_file(PathOf(object.name), uint64_t{1} << 40);
  EXPECT_EQ(
      Checkpoints(*store_).Read(object).status(),
      absl::DataLossError(PathOf(object.name) + ": larger than " + std::to_string(object.bytes) +
                          " bytes, as many as its manifest says"));
}

// A store whose deletions stop at some point, like those of a process that is killed.
class DyingStore final : public Store {
 public:
  DyingStore(Store& store, int deletions) : store_(store), left_(deletions) {}
  absl::Status Put(const std::string& name,
                   absl::Span<const absl::Span<const char>> pieces) override {
    return store_.Put(name, pieces);
  }
  absl::Status PutNew(const std::string& name,
                      absl::Span<const absl::Span<const char>> pieces) override {
    return store_.PutNew(name, pieces);
  }
  absl::StatusOr<Bytes> GetAtMost(const std::string& name, uint64_t bytes_max) override {
    return store_.GetAtMost(name, bytes_max);
  }
  absl::StatusOr<std::vector<std::string>> List() override { return store_.List(); }
  absl::Status Delete(const std::string& name) override {
    if (left_-- <= 0) return absl::UnavailableError(name + ": gone");
    return store_.Delete(name);
  }
  absl::Status DeleteFolder(const std::string& folder) override {
    const std::vector<std::string> names = *store_.List();
    for (const std::string& name : names) {
      if (name.rfind(folder + "/", 0) != 0) continue;
      if (absl::Status status = Delete(name); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const std::string& where() const override { return store_.where(); }

 private:
  Store& store_;
  int left_;
};

TEST_F(OnFiles, WhatIsHalfDeletedIsNoCheckpoint) {
  for (int deletions = 0; deletions < 6; ++deletions) {
    ASSERT_TRUE(Checkpoints(*store_).DropAfter(0).ok());
    for (const uint64_t clock : {100, 200, 300}) Write(clock);
    DyingStore dying(*store_, deletions);
    EXPECT_EQ(Checkpoints(dying).Prune(1).code(), absl::StatusCode::kUnavailable);
    Checkpoints checkpoints(*store_);
    const Checkpoints::Listing listing = *checkpoints.List();
    for (const Manifest& manifest : listing.complete) {
      EXPECT_TRUE(checkpoints.Verify(manifest).ok()) << deletions << " " << manifest.clock;
    }
    EXPECT_TRUE(checkpoints.Prune(1).ok());
    EXPECT_EQ(checkpoints.List()->complete.size(), 1u);
  }
}

// A manifest that cannot be read now, or by this version, may belong to a good checkpoint.
TEST_F(OnFiles, WhatCannotBeReadIsNotDeleted) {
  for (const uint64_t clock : {100, 200, 300, 400}) Write(clock);
  const std::string path = PathOf(Checkpoints::ObjectName(200, "manifest.json"));
  std::ofstream(path, std::ios::binary | std::ios::trunc) << "of another version";
  Checkpoints checkpoints(*store_);
  ASSERT_TRUE(checkpoints.Prune(1).ok());
  EXPECT_TRUE(std::filesystem::exists(PathOf(Checkpoints::ObjectName(200, "a"))));
  EXPECT_FALSE(std::filesystem::exists(PathOf("clock-00000000000000000300")));
  EXPECT_EQ(checkpoints.List()->complete.size(), 1u);
}

// The job resumes from the newest whole checkpoint, not from the damaged one after it, which must
// not count as newer than later ones.
TEST_F(OnFiles, WhatIsNewerThanWhereAJobGoesOnIsDropped) {
  for (const uint64_t clock : {100, 200, 300}) Write(clock);
  std::filesystem::remove(PathOf(Checkpoints::ObjectName(300, "b")));
  Put(400, "a", "never completed");
  std::vector<absl::Status> passed_over;
  ASSERT_EQ(Newest(&passed_over), 200u);
  Checkpoints checkpoints(*store_);
  ASSERT_TRUE(checkpoints.DropAfter(200).ok());
  Write(250);
  ASSERT_TRUE(checkpoints.Prune(1).ok());
  EXPECT_EQ(Newest(&passed_over), 250u);
  EXPECT_EQ(store_->List()->size(), 3u);
}

TEST_F(OnFiles, WhatDeadWritersLeftGoesWithTheirCheckpoint) {
  for (const uint64_t clock : {100, 200}) Write(clock);
  std::ofstream(PathOf(Checkpoints::ObjectName(100, "a.tmp.7.0"))) << "half";
  ASSERT_TRUE(Checkpoints(*store_).Prune(1).ok());
  EXPECT_FALSE(std::filesystem::exists(PathOf("clock-00000000000000000100")));
}

TEST_F(OnFiles, NamesSortLikeClocks) {
  EXPECT_LT(Checkpoints::ObjectName(9, "x"), Checkpoints::ObjectName(10, "a"));
  EXPECT_LT(Checkpoints::ObjectName(10, "x"), Checkpoints::ObjectName(UINT64_MAX, "a"));
}

}  // namespace
}  // namespace strata
