#include "common/file/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

namespace strata {
namespace {

class AtomicFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  size_t FilesInFolder() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

  const std::string folder_ = testing::TempDir() + "/atomic_file_test";
};

TEST_F(AtomicFile, WhatWasWrittenIsRead) {
  const std::string path = folder_ + "/a";
  const std::string content("one\0two\n", 8);
  ASSERT_TRUE(WriteFileAtomically(path, content).ok());
  EXPECT_EQ(*ReadFile(path, 8), content);
  EXPECT_EQ(FilesInFolder(), 1);
}

TEST_F(AtomicFile, PiecesAreWrittenBackToBackOverTheOldContent) {
  const std::string path = folder_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "old and longer than the new one").ok());
  const std::string one = "one", two = "two";
  const std::vector<absl::Span<const char>> pieces = {one, {}, two};
  ASSERT_TRUE(WriteFileAtomically(path, pieces).ok());
  EXPECT_EQ(*ReadFile(path, 100), "onetwo");
}

TEST_F(AtomicFile, AMissingFolderIsNamedAndNotFound) {
  const std::string path = folder_ + "/none/a";
  const absl::Status written = WriteFileAtomically(path, "x");
  EXPECT_EQ(written.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(written.message().find(path), absl::string_view::npos) << written;
  const absl::Status read = ReadFile(path, 10).status();
  EXPECT_EQ(read.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(read.message().find(path), absl::string_view::npos) << read;
}

TEST_F(AtomicFile, AFailedWriteKeepsTheOldContentAndLeavesNoFileBehind) {
  const std::string path = folder_ + "/a";
  std::filesystem::create_directories(path + "/b");  // rename onto a folder fails
  EXPECT_FALSE(WriteFileAtomically(path, "x").ok());
  EXPECT_EQ(FilesInFolder(), 1);
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST_F(AtomicFile, ALargerFileThanAllowedIsRefused) {
  const std::string path = folder_ + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, "12345").ok());
  const absl::Status read = ReadFile(path, 4).status();
  EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(read.message().find(path), absl::string_view::npos) << read;
}

TEST_F(AtomicFile, AFolderCannotBeRead) {
  EXPECT_EQ(ReadFile(folder_, 10).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AtomicFile, AFullDiskIsResourceExhausted) {
  const absl::Status status = FileError(ENOSPC, "/x/y");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "/x/y: No space left on device");
}

}  // namespace
}  // namespace strata
