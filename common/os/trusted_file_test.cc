#include "common/os/trusted_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/testing/other_user.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;

class TrustedFile : public testing::Test {
 protected:
  void SetUp() override {
    char top[] = "/tmp/trusted_file_test-XXXXXX";
    ASSERT_NE(mkdtemp(top), nullptr);
    top_ = top;
    ASSERT_EQ(chmod(top, 0755), 0);
    Make("/lib", 0755);
    plugin_ = top_ + "/lib/plugin.so";
    std::ofstream(plugin_) << "x";
    ASSERT_EQ(chmod(plugin_.c_str(), 0644), 0);
  }
  void TearDown() override { fs::remove_all(top_); }

  void Make(const std::string& folder, mode_t mode) {
    fs::create_directory(top_ + folder);
    ASSERT_EQ(chmod((top_ + folder).c_str(), mode), 0);
  }
  std::string Message(const std::string& path) {
    const absl::Status status = CheckTrusted(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  }
  // Returns the refusal of `path` because of `at`.
  std::string Others(const std::string& path, const std::string& at, const std::string& mode) {
    return absl::StrCat(path, ": others may replace it (", at, " has mode ", mode, "): chmod go-w ",
                        at);
  }

  std::string top_, plugin_;
};

TEST_F(TrustedFile, IsOneThatOnlyThisUserAndRootMayWrite) {
  // Although /tmp, which contains everything here, is writable for all: it is sticky.
  EXPECT_EQ(CheckTrusted(plugin_), absl::OkStatus());
  EXPECT_EQ(CheckTrusted(absl::StrCat(top_, "//lib/./../lib/plugin.so")), absl::OkStatus());
  EXPECT_EQ(CheckTrusted("/bin/sh"), absl::OkStatus());
}

TEST_F(TrustedFile, IsNoneThatOthersOrAGroupMayWrite) {
  for (const auto& [mode, text] :
       {std::pair(0666, "0666"), {0646, "0646"}, {0775, "0775"}, {01666, "1666"}}) {
    ASSERT_EQ(chmod(plugin_.c_str(), mode), 0);
    EXPECT_EQ(Message(plugin_), Others(plugin_, plugin_, text));
  }
}

TEST_F(TrustedFile, IsNoneInAFolderThatOthersOrAGroupMayWrite) {
  for (const auto& [mode, text] : {std::pair(0775, "0775"), {0757, "0757"}}) {
    ASSERT_EQ(chmod((top_ + "/lib").c_str(), mode), 0);
    EXPECT_EQ(Message(plugin_), Others(plugin_, top_ + "/lib", text));
  }
  ASSERT_EQ(chmod((top_ + "/lib").c_str(), 01777), 0);
  EXPECT_EQ(CheckTrusted(plugin_), absl::OkStatus());
  // Not only the folder that contains it.
  ASSERT_EQ(chmod(top_.c_str(), 0777), 0);
  EXPECT_EQ(Message(plugin_), Others(plugin_, top_, "0777"));
}

TEST_F(TrustedFile, LinksAreFollowedAndEachFolderOnTheWayIsLookedAt) {
  const std::string link = top_ + "/link.so", folder = top_ + "/folder";
  fs::create_symlink("lib/plugin.so", link);
  fs::create_symlink(top_ + "/lib", folder);
  EXPECT_EQ(CheckTrusted(link), absl::OkStatus());
  EXPECT_EQ(CheckTrusted(folder + "/plugin.so"), absl::OkStatus());
  // The file itself.
  ASSERT_EQ(chmod(plugin_.c_str(), 0666), 0);
  EXPECT_EQ(Message(link), Others(link, plugin_, "0666"));
  ASSERT_EQ(chmod(plugin_.c_str(), 0644), 0);
  // A folder with only a link, which others may redirect.
  Make("/open", 0777);
  fs::create_symlink("../lib/plugin.so", top_ + "/open/link.so");
  EXPECT_EQ(Message(top_ + "/open/link.so"),
            Others(top_ + "/open/link.so", top_ + "/open", "0777"));
  fs::create_symlink("round", top_ + "/round");
  EXPECT_THAT(std::string(CheckTrusted(top_ + "/round").message()),
              EndsWith("/round: Too many levels of symbolic links"));
}

TEST_F(TrustedFile, IsNoneOfAnotherUsers) {
  if (!AsOtherUser([] { return true; })) GTEST_SKIP() << "takes root, outside of a namespace";
  const auto others = [&](const std::string& path, const std::string& at) {
    return absl::StrCat(path, ": others may replace it (", at, " belongs to user ", kOtherUser,
                        "): use a copy of your own, or chown root ", at);
  };
  ASSERT_EQ(chown(plugin_.c_str(), kOtherUser, -1), 0);
  EXPECT_EQ(Message(plugin_), others(plugin_, plugin_));
  ASSERT_EQ(chown(plugin_.c_str(), 0, -1), 0);
  ASSERT_EQ(chown((top_ + "/lib").c_str(), kOtherUser, -1), 0);
  EXPECT_EQ(Message(plugin_), others(plugin_, top_ + "/lib"));
  ASSERT_EQ(chown((top_ + "/lib").c_str(), 0, -1), 0);
  // In a sticky folder the owner of a link may redirect it.
  Make("/sticky", 01777);
  const std::string link = top_ + "/sticky/link.so";
  fs::create_symlink(plugin_, link);
  EXPECT_EQ(CheckTrusted(link), absl::OkStatus());
  ASSERT_EQ(lchown(link.c_str(), kOtherUser, -1), 0);
  EXPECT_EQ(Message(link), others(link, link));
}

TEST_F(TrustedFile, OfRootsIsGoodForEveryUser) {
  const bool ran = AsOtherUser([&] { return CheckTrusted(plugin_).ok(); });
  if (!ran) GTEST_SKIP() << "takes root, outside of a namespace";
}

TEST_F(TrustedFile, HasAnAbsolutePathAndIsThere) {
  EXPECT_EQ(
      CheckTrusted("lib/plugin.so"),
      absl::InvalidArgumentError("lib/plugin.so: not an absolute path: say where it is from / on"));
  EXPECT_EQ(CheckTrusted(top_ + "/none.so"),
            absl::NotFoundError(top_ + "/none.so: No such file or directory"));
  EXPECT_EQ(CheckTrusted(top_ + "/none/plugin.so"),
            absl::NotFoundError(
                absl::StrCat(top_, "/none/plugin.so: ", top_, "/none: No such file or directory")));
  EXPECT_EQ(Message(top_ + "/lib"), top_ + "/lib: not a regular file");
}

class OwnFolder : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(top_);
    fs::create_directories(top_);
    fs::permissions(top_, fs::perms(0755));
  }
  mode_t ModeOf(const std::string& path) {
    struct stat facts = {};
    EXPECT_EQ(stat((top_ + path).c_str(), &facts), 0) << path;
    return facts.st_mode & 0777;
  }
  const std::string top_ = testing::TempDir() + "/own_folder_test";
};

TEST_F(OwnFolder, WhatIsMadeIsForThisUserAlone) {
  const mode_t before = umask(0);
  EXPECT_EQ(MakeOwnFolders(top_ + "/a/b/c/"), absl::OkStatus());
  umask(before);
  EXPECT_EQ(ModeOf("/a"), 0700);
  EXPECT_EQ(ModeOf("/a/b"), 0700);
  EXPECT_EQ(ModeOf("/a/b/c"), 0700);
}

TEST_F(OwnFolder, WhatIsThereKeepsItsMode) {
  EXPECT_EQ(MakeOwnFolders(top_ + "/x"), absl::OkStatus());
  EXPECT_EQ(MakeOwnFolders(top_ + "/x"), absl::OkStatus());
  EXPECT_EQ(MakeOwnFolders("/"), absl::OkStatus());
  EXPECT_EQ(ModeOf(""), 0755);
}

TEST_F(OwnFolder, ErrorsNameWhatCannotBeMade) {
  std::ofstream(top_ + "/file") << "x";
  EXPECT_EQ(MakeOwnFolders(top_ + "/file").message(), top_ + "/file: Not a directory");
  EXPECT_EQ(MakeOwnFolders(top_ + "/file/a/b").message(), top_ + "/file: Not a directory");
  EXPECT_EQ(MakeOwnFolders("/proc/none/a").message(), "/proc/none: No such file or directory");
}

}  // namespace
}  // namespace strata
