#include "common/checkpoint/file_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/aligned_memory.h"
#include "common/file/direct_file.h"
#include "common/unique_fd.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As the store names it.
std::string Folder(const std::string& name) {
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

  // How many pages of 4 KiB of an object are in the page cache.
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

  const std::string folder_ = Folder("file_store_test/deep/er");
};

TEST_F(Files, WhatIsPutIsThereForTheNextOneWhoOpensTheFolder) {
  EXPECT_TRUE(Put(*Open(), "a/b.txt", "content").ok());
  EXPECT_TRUE(Put(*Open(), "a/b.txt", "other").ok());
  EXPECT_TRUE(Put(*Open(), "empty", "").ok());
  EXPECT_EQ(Get(*Open(), "a/b.txt"), "other");
  EXPECT_EQ(Get(*Open(), "empty"), "");
  EXPECT_THAT(*Open()->List(), ElementsAre("a/b.txt", "empty"));
}

// Large objects leave the page cache to others, when they are written and when a server reads them.
TEST_F(Files, LargeObjectsPassThePageCacheBy) {
  const auto store = Open();
  const UniqueFd probe(open((folder_ + "/probe").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600));
  if (!probe.valid()) GTEST_SKIP() << "not on this file system";
  const size_t size = kDirectBytesMin + 5000;
  // Whole pages, and as vectors of a pool may lie.
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

// A disk that is full in the middle of an object.
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

}  // namespace
}  // namespace strata
