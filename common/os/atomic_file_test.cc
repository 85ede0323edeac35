#include "common/os/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

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

// A folder with one of each kind of thing that is not a regular file.
class Opened : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_ + "/folder");
    std::ofstream(dir_ + "/file") << "content";
    std::filesystem::create_symlink("file", dir_ + "/link");
    ASSERT_EQ(mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
    socket_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    const std::string path = dir_ + "/socket";
    ASSERT_LT(path.size(), sizeof address.sun_path);
    memcpy(address.sun_path, path.c_str(), path.size());
    ASSERT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  std::string Refused(const std::string& path, Links links = Links::kFollow) {
    const absl::Status status = OpenRegularFile(path, links).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(ReadFile(path, 100, links).status(), status);
    return std::string(status.message());
  }

  const std::string dir_ = "/tmp/strata-opened-" + std::to_string(getpid());
  UniqueFd socket_;
};

TEST_F(Opened, FilesAreRegularAndNobodyWaitsForOthers) {
  EXPECT_EQ(*ReadFile(dir_ + "/file", 7), "content");
  EXPECT_EQ(*ReadFile(dir_ + "/link", 7), "content");
  EXPECT_EQ(Refused(dir_ + "/link", Links::kRefuse), dir_ + "/link: a symbolic link, not a file");
  EXPECT_EQ(Refused(dir_ + "/pipe"), dir_ + "/pipe: a pipe, not a file");
  EXPECT_EQ(Refused(dir_ + "/socket"), dir_ + "/socket: a socket, not a file");
  EXPECT_EQ(Refused(dir_ + "/folder"), dir_ + "/folder: a folder, not a file");
  EXPECT_EQ(Refused("/dev/zero"), "/dev/zero: a device, not a file");
  EXPECT_EQ(Refused("/proc/self/environ"), "/proc/self/environ: made by the kernel, not a file");
  EXPECT_EQ(Refused("/sys/kernel/uevent_seqnum"),
            "/sys/kernel/uevent_seqnum: made by the kernel, not a file");
  EXPECT_EQ(OpenRegularFile(dir_ + "/none").status().code(), absl::StatusCode::kNotFound);
  std::filesystem::remove_all(dir_);
}

TEST_F(Opened, FilesToWriteAreRegularToo) {
  const auto refused = [](const std::string& path) {
    return std::string(OpenRegularFileToWrite(path, O_CREAT | O_APPEND).status().message());
  };
  EXPECT_EQ(refused(dir_ + "/link"), dir_ + "/link: a symbolic link, not a file");
  EXPECT_EQ(refused(dir_ + "/pipe"), dir_ + "/pipe: a pipe, not a file");
  EXPECT_EQ(refused("/dev/null"), "/dev/null: a device, not a file");
  EXPECT_TRUE(OpenRegularFileToWrite(dir_ + "/new", O_CREAT | O_APPEND, 0600).ok());
  EXPECT_EQ(std::filesystem::status(dir_ + "/new").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove_all(dir_);
}

TEST_F(Opened, WhatAUserNamesMayBeAPipe) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(write(ends[1], "job", 3), 3);
  close(ends[1]);
  EXPECT_EQ(*ReadFileOrPipe("/proc/self/fd/" + std::to_string(ends[0]), 100), "job");
  close(ends[0]);
  EXPECT_EQ(ReadFileOrPipe("/dev/zero", 100).status().message(),
            "/dev/zero: larger than 100 bytes");
  std::filesystem::remove_all(dir_);
}

}  // namespace
}  // namespace strata
