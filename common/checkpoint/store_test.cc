#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"
#include "common/checkpoint/open_store.h"
#include "common/os/direct_file.h"
#include "common/testing/memory_bucket.h"
#include "common/unique_fd.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The name as the store gives it.
std::string FileFolder(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / name).lexically_normal().string();
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<FileStore> Open() {
    auto store = FileStore::Open(folder_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  static absl::Status Put(Store& store, const std::string& name, const std::string& text) {
    const absl::Span<const char> pieces[] = {absl::MakeConstSpan(text).subspan(0, text.size() / 2),
                                             absl::MakeConstSpan(text).subspan(text.size() / 2)};
    return store.Put(name, pieces);
  }
  static std::string Get(Store& store, const std::string& name) {
    const auto content = store.Get(name);
    EXPECT_TRUE(content.ok()) << content.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(content->data()) % 64, 0u);
    return {reinterpret_cast<const char*>(content->data()), content->size()};
  }

  // Returns how many 4 KiB pages of an object are in the page cache.
  size_t CachedPages(const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    const UniqueFd fd(open(path.c_str(), O_RDONLY));
    const size_t size = std::filesystem::file_size(path);
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    std::vector<unsigned char> pages((size + 4095) / 4096);
    EXPECT_EQ(mincore(mapped, size, pages.data()), 0);
    munmap(mapped, size);
    return static_cast<size_t>(std::count_if(pages.begin(), pages.end(),
                                             [](unsigned char page) { return (page & 1) != 0; }));
  }

  const std::string folder_ = FileFolder("file_store_test/deep/er");
};

TEST_F(Files, WhatIsPutIsThereForTheNextOneWhoOpensTheFolder) {
  EXPECT_TRUE(Put(*Open(), "a/b.txt", "content").ok());
  EXPECT_TRUE(Put(*Open(), "a/b.txt", "other").ok());
  EXPECT_TRUE(Put(*Open(), "empty", "").ok());
  EXPECT_EQ(Get(*Open(), "a/b.txt"), "other");
  EXPECT_EQ(Get(*Open(), "empty"), "");
  EXPECT_THAT(*Open()->List(), ElementsAre("a/b.txt", "empty"));
}

// Large objects do not pollute the page cache, neither when written nor when a server reads them.
TEST_F(Files, LargeObjectsPassThePageCacheBy) {
  const auto store = Open();
  const UniqueFd probe(open((folder_ + "/probe").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600));
  if (!probe.valid()) GTEST_SKIP() << "not on this file system";
  const size_t size = kDirectBytesMin + 5000;
  // Page-aligned, and shifted as a pool's vectors may be.
  for (const size_t shift : {0, 64}) {
    const std::shared_ptr<std::byte> memory = AlignedMemory(size + shift, kDirectAlignment);
    char* const begin = reinterpret_cast<char*>(memory.get()) + shift;
    for (size_t i = 0; i < size; ++i) begin[i] = static_cast<char>(i >> 9 ^ i);
    const absl::Span<const char> whole(begin, size);
    ASSERT_TRUE(store->Put("large", {&whole, 1}).ok());
    EXPECT_LT(CachedPages("large"), 4) << "but for its end";
    std::string seen;
    const absl::Status read = store->Read("large", [&](uint64_t, absl::Span<const char> piece) {
      seen.append(piece.data(), piece.size());
      return absl::OkStatus();
    });
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_TRUE(seen == std::string(begin, size));
    EXPECT_LT(CachedPages("large"), 4);
    EXPECT_TRUE(Get(*store, "large") == seen);
    EXPECT_GT(CachedPages("large"), 4000) << "the whole object is for all of this host";
  }
}

TEST_F(Files, DeletedObjectsAndTheirEmptyFoldersAreGone) {
  const auto store = Open();
  ASSERT_TRUE(Put(*store, "a/b/c", "1").ok());
  ASSERT_TRUE(Put(*store, "a/d", "2").ok());
  EXPECT_TRUE(store->Delete("a/b/c").ok());
  EXPECT_TRUE(store->Delete("a/b/c").ok()) << "that it is gone is what was wanted";
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a/b"));
  EXPECT_THAT(*store->List(), ElementsAre("a/d"));
  EXPECT_EQ(store->Get("a/b/c").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Files, WhatAWriterLeftThatDiedIsNoObject) {
  const auto store = Open();
  std::ofstream(folder_ + "/x.tmp.77") << "half";
  EXPECT_TRUE(store->List()->empty());
}

TEST_F(Files, AnObjectThatIsNoFileIsRefusedAndNobodyWaitsForIt) {
  const auto store = Open();
  std::ofstream(folder_ + "/elsewhere") << "secret";
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("elsewhere", folder_ + "/link");
  for (const auto& [name, what] :
       {std::pair<std::string, std::string>{"pipe", "a pipe"}, {"link", "a symbolic link"}}) {
    const std::string why = folder_ + "/" + name + ": " + what + ", not a file";
    EXPECT_EQ(store->Get(name).status().message(), why);
    EXPECT_EQ(store->Read(name, [](size_t, absl::Span<const char>) { return absl::OkStatus(); })
                  .message(),
              why);
  }
}

// A job's program has replaced a checkpoint's folder, or an object, by a link.
TEST_F(Files, ALinkThatIsPutThereLeadsNowhere) {
  const auto store = Open();
  const std::string other = FileFolder("file_store_test/other");
  std::filesystem::create_directories(other + "/deeper");
  for (const char* name : {"/x", "/deeper/x"}) std::ofstream(other + name) << "of others";
  std::filesystem::create_directory_symlink(other, folder_ + "/link");
  std::filesystem::create_symlink(other + "/x", folder_ + "/object");
  const std::string text = "of the job";
  const absl::Span<const char> piece(text);
  const auto ignore = [](size_t, absl::Span<const char>) { return absl::OkStatus(); };
  for (const std::string name : {"link/x", "link/new", "link/deeper/x", "link/new/x"}) {
    for (const absl::Status& status :
         {Put(*store, name, text), store->PutNew(name, {&piece, 1}), store->Get(name).status(),
          store->Read(name, ignore), store->Delete(name)}) {
      EXPECT_EQ(status,
                absl::InvalidArgumentError(folder_ + "/link: a symbolic link, not a folder"))
          << name;
    }
  }
  EXPECT_THAT(*store->List(), ElementsAre("object")) << "none of behind the link";
  EXPECT_FALSE(store->Get("object").ok());
  EXPECT_FALSE(store->DeleteFolder("link/deeper").ok());
  // The object itself is replaced, and the link is removed.
  EXPECT_TRUE(Put(*store, "object", text).ok());
  EXPECT_EQ(Get(*store, "object"), text);
  EXPECT_TRUE(store->DeleteFolder("link").ok());
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(folder_ + "/link")));
  for (const char* name : {"/x", "/deeper/x"}) {
    std::string left;
    std::getline(std::ifstream(other + name), left);
    EXPECT_EQ(left, "of others");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(other), {}), 2);
  std::filesystem::remove_all(other);
}

// The folder is constantly swapped for a link, and back.
TEST_F(Files, AFolderThatIsExchangedForALinkMeanwhileLeadsNowhere) {
  const auto store = Open();
  const std::string other = FileFolder("file_store_test/other");
  std::filesystem::create_directories(other);
  ASSERT_EQ(mkdir((folder_ + "/clock").c_str(), 0700), 0);
  ASSERT_EQ(symlink(other.c_str(), (folder_ + "/swap").c_str()), 0);
  std::atomic<bool> is_done = false;
  std::thread exchanger([&] {
    while (!is_done) {
      renameat2(AT_FDCWD, (folder_ + "/clock").c_str(), AT_FDCWD, (folder_ + "/swap").c_str(),
                RENAME_EXCHANGE);
    }
  });
  int written = 0, refused = 0;
  for (int i = 0; i < 20'000 && (i < 300 || written == 0 || refused == 0); ++i) {
    ++(Put(*store, "clock/x", "text").ok() ? written : refused);
    (void)store->Delete("clock/x");
    if (!std::filesystem::is_empty(other)) break;
  }
  is_done = true;
  exchanger.join();
  EXPECT_GT(written, 0);
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(std::filesystem::is_empty(other));
  std::filesystem::remove_all(other);
}

TEST_F(Files, AnObjectThatIsTooLargeIsRefusedBeforeMemoryIsTaken) {
  const auto store = Open();
  ASSERT_TRUE(Put(*store, "x", "12345").ok());
  EXPECT_TRUE(store->GetAtMost("x", 5).ok());
  EXPECT_EQ(store->GetAtMost("x", 4).status(),
            absl::InvalidArgumentError(folder_ + "/x: larger than 4 bytes"));
}

TEST_F(Files, NamesThatLeaveTheFolderAreRefused) {
  const auto store = Open();
  for (const std::string name :
       {"", "/", "a//b", "../x", "a/../b", "/etc/passwd", ".hidden", "a b", "a\nb", "a/"}) {
    for (const absl::Status& status :
         {Put(*store, name, "x"), store->Get(name).status(), store->Delete(name)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    }
  }
  EXPECT_FALSE(CheckObjectName(std::string(600, 'a')).ok());
}

TEST_F(Files, AFolderThatCannotBeIsNamed) {
  EXPECT_EQ(FileStore::Open("relative").status().message(), "relative: not an absolute path");
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/file") << "x";
  const absl::Status status = FileStore::Open(folder_ + "/file/below").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/file"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  const auto store = Open();
  EXPECT_THAT(std::string(Put(*store, "file/x", "y").message()), HasSubstr(folder_ + "/file"));
  std::filesystem::create_directories(folder_ + "/dir");
  EXPECT_FALSE(store->Get("dir").ok());
}

TEST_F(Files, AnObjectThatIsNotNewLeavesNothingBehind) {
  const auto store = Open();
  const std::string text = "text";
  const absl::Span<const char> piece(text);
  ASSERT_TRUE(store->PutNew("x", {&piece, 1}).ok());
  const absl::Status status = store->PutNew("x", {&piece, 1});
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/x: "));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// The disk is full in the middle of an object.
TEST_F(Files, AWriteThatFailsLeavesTheObjectBeforeAndNoHalfOfTheNew) {
  const auto store = Open();
  ASSERT_TRUE(Put(*store, "x", "old").ok());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 100, .rlim_max = before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = Put(*store, "x", std::string(1000, 'n'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/x"));
  EXPECT_EQ(Get(*store, "x"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

fs::path OpenFolder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::remove_all(folder);
  return folder;
}

TEST(OpenStore, OpensAFolderByAPathFromTheWorkingDirectory) {
  const fs::path folder = OpenFolder("open_store_here");
  fs::create_directories(folder / "clock-1");
  std::ofstream(folder / "clock-1" / "a") << "content";
  const auto store = OpenStoreThatIsThere(fs::relative(folder).string(), {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->where(), folder.lexically_normal().string());
  EXPECT_THAT(*(*store)->List(), ElementsAre("clock-1/a"));
}

TEST(OpenStore, MakesNoFolderThatIsMissing) {
  const fs::path folder = OpenFolder("open_store_missing");
  const auto store = OpenStoreThatIsThere(folder.string(), {});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(store.status().message()), StartsWith(folder.string() + ": "));
  EXPECT_FALSE(fs::exists(folder));
}

TEST(OpenStore, RefusesWhatIsNoFolder) {
  const fs::path file = OpenFolder("open_store_file");
  std::ofstream(file) << "content";
  for (const std::string& address : {file.string(), std::string()}) {
    EXPECT_EQ(OpenStoreThatIsThere(address, {}).status().code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
}

// Contract: every kind of store passes these tests.

// A place for objects, for the duration of a test.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::string Address() const = 0;
  virtual StoreOptions Options() const { return {}; }
  // Does what a writer does that dies while it writes `folder`/x.
  virtual void DieWhileWriting(Store& store, const std::string& folder) = 0;
  // Returns whether anything of that remains.
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
    // Nothing gets through once all parts have.
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
  // In pieces, some of them empty.
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
                      // All but the smallest objects are uploaded in parts.
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

// Other users' objects in the same bucket do not count.
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
