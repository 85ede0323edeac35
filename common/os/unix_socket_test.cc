#include "common/os/unix_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/other_user.h"
#include "common/testing/short_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class UnixSocket : public testing::Test {
 protected:
  void SetUp() override { path_ = folder_ + "/s"; }

  static mode_t ModeOf(const std::string& path) {
    struct stat facts = {};
    EXPECT_EQ(lstat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 0777;
  }
  // Leaves what a killed process leaves behind.
  void DieListening() {
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {.sun_family = AF_UNIX};
    path_.copy(address.sun_path, sizeof address.sun_path);
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(fd.get(), 1), 0);
  }
  static std::string Message(const absl::Status& status) { return std::string(status.message()); }
  const ShortFolder short_folder_;
  const std::string& folder_ = short_folder_.path();
  std::string path_;
};

TEST_F(UnixSocket, AddressesAndPaths) {
  EXPECT_EQ(UnixPath("unix:/run/x"), "/run/x");
  EXPECT_EQ(UnixAddress("/run/x"), "unix:/run/x");
  EXPECT_EQ(UnixPath("127.0.0.1:7070"), std::nullopt);
}

TEST_F(UnixSocket, ListensForThisUserAloneAndGoesWithItsOwner) {
  {
    const auto listener = UnixListener::Create(path_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(ModeOf(path_), 0600);
    const auto dialled = DialUnix(path_);
    EXPECT_TRUE(dialled.ok()) << dialled.status();
  }
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_EQ(DialUnix(path_).status(), absl::UnavailableError("no such file or directory"));
}

TEST_F(UnixSocket, TakesThePathOfOneThatDied) {
  DieListening();
  EXPECT_EQ(DialUnix(path_).status(), absl::UnavailableError("connection refused"));
  EXPECT_TRUE(UnixListener::Create(path_).ok());
}

TEST_F(UnixSocket, LeavesThePathOfOneThatLives) {
  const auto first = UnixListener::Create(path_);
  ASSERT_TRUE(first.ok());
  const absl::Status second = UnixListener::Create(path_).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(second), HasSubstr(path_ + ": a process listens there already"));
  EXPECT_TRUE(DialUnix(path_).ok());
}

TEST_F(UnixSocket, OneThatEndsLeavesWhatHasTakenItsPlace) {
  std::optional<UnixListener> first;
  first.emplace(*UnixListener::Create(path_));
  fs::remove(path_);
  const auto second = UnixListener::Create(path_);
  ASSERT_TRUE(second.ok());
  first.reset();
  EXPECT_TRUE(DialUnix(path_).ok());
}

TEST_F(UnixSocket, OfManyThatWantAPathOneGetsIt) {
  for (int round = 0; round < 20; ++round) {
    DieListening();
    std::vector<std::optional<UnixListener>> got(4);
    std::vector<std::thread> wanting;
    for (auto& mine : got) {
      wanting.emplace_back([&mine, this] {
        auto listener = UnixListener::Create(path_);
        if (listener.ok()) mine.emplace(*std::move(listener));
      });
    }
    for (std::thread& one : wanting) one.join();
    int many = 0;
    for (const auto& mine : got) many += mine.has_value();
    EXPECT_EQ(many, 1);
    EXPECT_TRUE(DialUnix(path_).ok());
  }
}

TEST_F(UnixSocket, LeavesWhatIsNoSocket) {
  std::ofstream(path_) << "mine";
  const absl::Status status = UnixListener::Create(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("something is there that is no socket"));
  EXPECT_EQ(fs::file_size(path_), 4);
}

TEST_F(UnixSocket, PathsThatNoSocketMayHaveAreRefused) {
  EXPECT_THAT(Message(UnixListener::Create("s").status()), HasSubstr("expected an absolute path"));
  const std::string longest =
      folder_ + "/" + std::string(kUnixPathBytesMax - folder_.size() - 1, 'x');
  EXPECT_TRUE(UnixListener::Create(longest).ok());
  EXPECT_THAT(Message(UnixListener::Create(longest + "x").status()),
              EndsWith("longer than the 107 bytes of a socket's path"));
  EXPECT_THAT(Message(DialUnix(longest + "x").status()), HasSubstr("107 bytes"));
}

// A user who may open the file is still recognized as another user.
TEST_F(UnixSocket, AnotherUsersSocketIsNotTalkedTo) {
  const auto listener = UnixListener::Create(path_);
  ASSERT_TRUE(listener.ok());
  fs::permissions(folder_, fs::perms::all | fs::perms::sticky_bit);
  const bool ran = AsOtherUser([&] { return absl::IsUnavailable(DialUnix(path_).status()); });
  if (!ran) GTEST_SKIP() << "takes root, outside of a namespace";
  fs::permissions(path_, fs::perms::all);
  AsOtherUser([&] {
    const absl::Status status = DialUnix(path_).status();
    return absl::IsPermissionDenied(status) &&
           status.message() == "unix:" + path_ + ": a process of another user listens there";
  });
}

// There another socket could replace this one right after the check.
TEST_F(UnixSocket, WhereOthersMayReplaceItASocketIsNotDialled) {
  const auto listener = UnixListener::Create(path_);
  ASSERT_TRUE(listener.ok());
  fs::permissions(folder_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(DialUnix(path_).status(),
            absl::PermissionDeniedError("unix:" + path_ + ": other users may replace it"));
  fs::permissions(folder_, fs::perms::sticky_bit, fs::perm_options::add);
  EXPECT_TRUE(DialUnix(path_).ok()) << "as in /tmp";
  fs::permissions(folder_, fs::perms::group_write);
  EXPECT_TRUE(absl::IsPermissionDenied(DialUnix(path_).status()));
}

TEST_F(UnixSocket, TheFolderOfSocketsIsThisUsersAlone) {
  EXPECT_EQ(SocketFolders(folder_).front(), folder_ + "/strata");
  for (const char* none : {"", "/none/at/all", "relative"}) {
    EXPECT_EQ(SocketFolders(none), SocketFolders("")) << none;
    EXPECT_EQ(SocketFolders(none).back(), absl::StrCat("/tmp/strata-", geteuid()));
  }
  EXPECT_EQ(SocketFolders(folder_).size(), SocketFolders("").size() + 1);
  const std::string folder = folder_ + "/strata";
  EXPECT_EQ(MakeSocketFolder(folder), absl::OkStatus());
  EXPECT_EQ(ModeOf(folder), 0700);
  EXPECT_EQ(MakeSocketFolder(folder), absl::OkStatus()) << "it is there";
  fs::permissions(folder, fs::perms::others_read, fs::perm_options::add);
  EXPECT_EQ(MakeSocketFolder(folder).message(),
            folder + ": other users may look into it; chmod 700 " + folder);
  fs::remove(folder);
  std::ofstream(folder) << "x";
  EXPECT_EQ(MakeSocketFolder(folder).message(), folder + ": it is no folder");
  fs::remove(folder);
  fs::create_symlink(folder_, folder);
  EXPECT_EQ(MakeSocketFolder(folder).message(), folder + ": it is no folder");
}

TEST_F(UnixSocket, WhatThoseThatDiedHaveLeftInTheFolderGoes) {
  const auto living = UnixListener::Create(folder_ + "/living");
  ASSERT_TRUE(living.ok());
  DieListening();
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_EQ(MakeSocketFolder(folder_), absl::OkStatus());
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_TRUE(fs::exists(folder_ + "/file"));
  EXPECT_TRUE(DialUnix(folder_ + "/living").ok());
}

TEST_F(UnixSocket, AFolderOfAnotherUserIsNotUsed) {
  fs::permissions(folder_, fs::perms::all);
  const std::string folder = folder_ + "/strata";
  const bool ran = AsOtherUser([&] { return mkdir(folder.c_str(), 0700) == 0; });
  if (!ran) GTEST_SKIP() << "takes root, outside of a namespace";
  EXPECT_THAT(Message(MakeSocketFolder(folder)), HasSubstr("it belongs to user 12345; set "));
  EXPECT_EQ(SocketFolders(folder), SocketFolders("")) << "a runtime folder that was inherited";
}

}  // namespace
}  // namespace strata
