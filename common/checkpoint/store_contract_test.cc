// What every store does, on each of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/open_store.h"
#include "common/s3/testing/memory_bucket.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Where objects are kept, for as long as a case runs.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::string Address() const = 0;
  virtual StoreOptions Options() const { return {}; }
  // Does to it what a writer does that dies while it writes `folder`/x.
  virtual void DieWhileWriting(Store& store, const std::string& folder) = 0;
  // Whether something of that is there.
  virtual bool HasRemains() const = 0;
};

class FolderPlace final : public Place {
 public:
  FolderPlace() { std::filesystem::remove_all(folder_); }
  ~FolderPlace() override { std::filesystem::remove_all(folder_); }
  std::string Address() const override { return folder_; }
  void DieWhileWriting(Store&, const std::string& folder) override {
    std::filesystem::create_directories(folder_ + "/" + folder);
    remains_ = folder_ + "/" + folder + "/x.tmp.7.0123456789abcdef";
    std::ofstream(remains_) << "half";
  }
  bool HasRemains() const override { return std::filesystem::exists(remains_); }

 private:
  const std::string folder_ =
      (std::filesystem::path(::testing::TempDir()) / "store_contract_test").lexically_normal();
  std::string remains_;
};

class BucketPlace final : public Place {
 public:
  explicit BucketPlace(uint64_t part_bytes) : part_bytes_(part_bytes) { memory_.SetPage(3); }
  std::string Address() const override { return "s3://bucket/runs/a job"; }
  StoreOptions Options() const override {
    return {.environment = memory_.Variables(),
            .s3 = {.retry_for = absl::ZeroDuration(), .part_bytes = part_bytes_}};
  }
  void DieWhileWriting(Store& store, const std::string& folder) override {
    // Nothing comes through once all parts have.
    memory_.InterfereWith(
        [](const s3::ReceivedRequest& request) -> std::optional<s3::Interference> {
          if (!request.Has("uploadId") || request.Has("partNumber")) return std::nullopt;
          return s3::Interference{.reply = {.fault = s3::Fault::kReset}};
        });
    const std::string content(part_bytes_ + 1, 'x');
    const absl::Span<const char> piece(content);
    EXPECT_EQ(store.Put(folder + "/x", {&piece, 1}).code(), absl::StatusCode::kUnavailable);
    memory_.InterfereWith(nullptr);
  }
  bool HasRemains() const override { return memory_.uploads() > 0; }

 private:
  const uint64_t part_bytes_;
  s3::MemoryBucket memory_;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Place>()> make;
};

class StoreContract : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Store> Open() {
    auto store = OpenStore(place_->Address(), place_->Options());
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  // In pieces, of which some are empty.
  static absl::Status Put(Store& store, const std::string& name, const std::string& text,
                          bool only_new = false) {
    const absl::Span<const char> whole(text);
    const absl::Span<const char> pieces[] = {
        {}, whole.subspan(0, text.size() / 2), {}, whole.subspan(text.size() / 2)};
    return only_new ? store.PutNew(name, pieces) : store.Put(name, pieces);
  }
  static std::string Get(Store& store, const std::string& name) {
    const auto content = store.Get(name);
    EXPECT_TRUE(content.ok()) << content.status();
    if (!content.ok()) return "";
    EXPECT_EQ(reinterpret_cast<uintptr_t>(content->data()) % 64, 0u);
    return {reinterpret_cast<const char*>(content->data()), content->size()};
  }
  static ObjectFacts PutObject(Store& store, uint64_t clock, const std::string& part) {
    const std::string text = absl::StrCat(part, " of ", clock);
    const absl::Span<const char> piece(text);
    const std::string name = Checkpoints::ObjectName(clock, part);
    EXPECT_TRUE(store.Put(name, {&piece, 1}).ok());
    return FactsOf(name, {&piece, 1});
  }
  static Manifest Write(Store& store, uint64_t clock) {
    Manifest manifest = {.job = 1,
                         .job_name = "j",
                         .clock = clock,
                         .written = absl::FromUnixSeconds(10),
                         .record = "r",
                         .objects = {PutObject(store, clock, "a"), PutObject(store, clock, "b")}};
    EXPECT_TRUE(Checkpoints(store).Complete(manifest).ok());
    return manifest;
  }

  const std::unique_ptr<Place> place_ = GetParam().make();
};

TEST_P(StoreContract, WhatIsPutIsThereForTheNextOneWhoOpensIt) {
  EXPECT_TRUE(Put(*Open(), "a/b.txt", "content").ok());
  EXPECT_TRUE(Put(*Open(), "a/b.txt", "another, longer than before").ok());
  EXPECT_TRUE(Put(*Open(), "empty", "").ok());
  EXPECT_EQ(Get(*Open(), "a/b.txt"), "another, longer than before");
  EXPECT_EQ(Get(*Open(), "empty"), "");
  EXPECT_THAT(*Open()->List(), ElementsAre("a/b.txt", "empty"));
  EXPECT_EQ(Open()->where(), place_->Address());
}

TEST_P(StoreContract, ReadHandsAnObjectOnInOrder) {
  const auto store = Open();
  for (const std::string text : {"", "short", "longer than what goes in one part of an upload"}) {
    ASSERT_TRUE(Put(*store, "x", text).ok());
    std::string seen;
    int calls = 0;
    const absl::Status read = store->Read("x", [&](uint64_t size, absl::Span<const char> piece) {
      EXPECT_EQ(size, text.size());
      seen.append(piece.data(), piece.size());
      ++calls;
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    EXPECT_EQ(seen, text);
    EXPECT_GE(calls, 1);
  }
  const auto refuse = [](uint64_t, absl::Span<const char>) { return absl::AbortedError("no"); };
  EXPECT_EQ(store->Read("x", refuse), absl::AbortedError("no"));
  EXPECT_EQ(store->Read("none", refuse).code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreContract, PutNewLeavesWhatIsThere) {
  const auto store = Open();
  for (const std::string text : {"", "short", "longer than what goes in one part of an upload"}) {
    const std::string name = absl::StrCat("f/x", text.size());
    EXPECT_TRUE(Put(*store, name, text, /*only_new=*/true).ok());
    const absl::Status status = Put(*store, name, text + "!", /*only_new=*/true);
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith(store->where() + "/" + name + ": "));
    EXPECT_EQ(Get(*store, name), text);
    EXPECT_TRUE(store->Delete(name).ok());
    EXPECT_TRUE(Put(*store, name, "again", /*only_new=*/true).ok());
  }
  EXPECT_EQ(store->List()->size(), 3u);
}

TEST_P(StoreContract, OfManyWhoPutNewOneDoes) {
  const auto store = Open();
  std::atomic<int> done{0}, late{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const absl::Status status =
          Put(*store, "x", absl::StrCat("this is of thread ", i), /*only_new=*/true);
      ++(status.ok() ? done : late);
      EXPECT_TRUE(status.ok() || absl::IsAlreadyExists(status)) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(late, 7);
  EXPECT_THAT(Get(*store, "x"), StartsWith("this is of thread "));
  EXPECT_THAT(*store->List(), ElementsAre("x"));
}

TEST_P(StoreContract, DeletedObjectsAreGone) {
  const auto store = Open();
  ASSERT_TRUE(Put(*store, "a/b/c", "1").ok());
  ASSERT_TRUE(Put(*store, "a/d", "2").ok());
  EXPECT_TRUE(store->Delete("a/b/c").ok());
  EXPECT_TRUE(store->Delete("a/b/c").ok()) << "that it is gone is what was wanted";
  EXPECT_THAT(*store->List(), ElementsAre("a/d"));
  const absl::Status status = store->Get("a/b/c").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), StartsWith(store->where() + "/a/b/c: "));
}

TEST_P(StoreContract, AFolderIsDeletedWithAllThatIsInIt) {
  const auto store = Open();
  for (const std::string name : {"a/1", "a/2", "a/b/3", "a/b/4", "ab/c", "b"}) {
    ASSERT_TRUE(Put(*store, name, "x").ok());
  }
  EXPECT_TRUE(store->DeleteFolder("a").ok());
  EXPECT_TRUE(store->DeleteFolder("a").ok());
  EXPECT_THAT(*store->List(), ElementsAre("ab/c", "b"));
}

TEST_P(StoreContract, WhatAWriterLeftThatDiedIsNoObjectAndGoesWithItsFolder) {
  const auto store = Open();
  place_->DieWhileWriting(*store, "f");
  EXPECT_THAT(*store->List(), IsEmpty());
  EXPECT_EQ(store->Get("f/x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(place_->HasRemains());
  EXPECT_TRUE(store->DeleteFolder("f").ok());
  EXPECT_FALSE(place_->HasRemains());
}

TEST_P(StoreContract, AListHasAllNamesInOrder) {
  const auto store = Open();
  std::vector<std::string> expected;
  for (int i = 10; i < 30; ++i) {
    expected.push_back(absl::StrCat("f-", i % 3, "/n", i));
    ASSERT_TRUE(Put(*store, expected.back(), "x").ok());
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(*store->List(), expected);
}

TEST_P(StoreContract, NamesThatAreNoneAreRefused) {
  const auto store = Open();
  for (const std::string name :
       {"", "/", "a//b", "../x", "a/../b", "/etc/passwd", ".hidden", "a b", "a\nb", "a/", "a?b"}) {
    for (const absl::Status& status :
         {Put(*store, name, "x"), Put(*store, name, "x", /*only_new=*/true),
          store->Get(name).status(), store->Delete(name), store->DeleteFolder(name)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    }
  }
}

TEST_P(StoreContract, CheckpointsLieOnIt) {
  const auto store = Open();
  Checkpoints checkpoints(*store);
  for (const uint64_t clock : {100, 200, 300}) Write(*store, clock);
  PutObject(*store, 50, "a");
  PutObject(*store, 400, "a");
  Manifest other = Write(*store, 350);
  other.record = "another";
  EXPECT_EQ(checkpoints.Complete(other).code(), absl::StatusCode::kAlreadyExists);

  std::vector<absl::Status> passed_over;
  const auto newest = checkpoints.Newest(&passed_over);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->clock, 350u);
  EXPECT_EQ(newest->record, "r");
  EXPECT_THAT(passed_over, IsEmpty());
  const auto content = checkpoints.Read(newest->objects[1]);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->size(), newest->objects[1].bytes);

  ASSERT_TRUE(Put(*store, Checkpoints::ObjectName(350, "b"), "b of 351").ok());
  EXPECT_EQ(checkpoints.Verify(*newest).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(checkpoints.Newest(&passed_over)->clock, 300u);
  ASSERT_EQ(passed_over.size(), 1u);
  EXPECT_THAT(std::string(passed_over[0].message()), HasSubstr(Checkpoints::ObjectName(350, "b")));

  ASSERT_TRUE(checkpoints.DropAfter(300).ok());
  ASSERT_TRUE(checkpoints.Prune(2).ok());
  EXPECT_EQ(checkpoints.List()->clocks, (std::set<uint64_t>{200, 300}));
  EXPECT_EQ(store->List()->size(), 6u);
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    ::testing::Values(Kind{"Files", [] { return std::make_unique<FolderPlace>(); }},
                      Kind{"S3", [] { return std::make_unique<BucketPlace>(64 << 10); }},
                      // All but the smallest objects go in parts.
                      Kind{"S3InParts", [] { return std::make_unique<BucketPlace>(7); }}),
    [](const auto& info) { return info.param.name; });

TEST(OpenStore, WhatIsNeitherAPathNorABucketIsRefused) {
  for (const std::string address : {"", "relative/path", "gs://bucket", "file:///x", "S3://b"}) {
    const absl::Status status = OpenStore(address, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), absl::StrCat("\"", address,
                                             "\" is neither an absolute path nor "
                                             "s3://BUCKET/PREFIX"));
  }
  EXPECT_EQ(OpenStore("s3://bucket", {.environment = {{"AWS_REGION", "r"}}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpenStore("s3://B", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

// Objects of others in the same bucket are none.
TEST(S3Store, WhatIsNotNamedLikeAnObjectIsNone) {
  s3::MemoryBucket memory;
  memory.SetObject("runs/a job/x", "x");
  memory.SetObject("runs/a job/", "a folder, as consoles make them");
  memory.SetObject("runs/a job/of others & more", "x");
  memory.SetObject("runs/a job 2/y", "x");
  memory.SetObject("z", "x");
  const auto store = OpenStore("s3://bucket/runs/a job/", {.environment = memory.Variables()});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->where(), "s3://bucket/runs/a job");
  EXPECT_THAT(*(*store)->List(), ElementsAre("x"));
  const auto whole = OpenStore("s3://bucket", {.environment = memory.Variables()});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ((*whole)->where(), "s3://bucket");
  EXPECT_THAT(*(*whole)->List(), ElementsAre("z"));
}

}  // namespace
}  // namespace strata
