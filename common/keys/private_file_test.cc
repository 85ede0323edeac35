#include "common/keys/private_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/other_user.h"
#include "common/testing/short_folder.h"
#include "common/unique_fd.h"

namespace strata::keys {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr size_t kBytesMax = 100;

class PrivateFile : public testing::Test {
 protected:
  void SetUp() override { path_ = folder_ + "/key.pem"; }

  mode_t Mode(const std::string& path) const {
    struct stat is = {};
    EXPECT_EQ(stat(path.c_str(), &is), 0) << path;
    return is.st_mode & 07777;
  }

  void ExpectRefused(const std::string& path, absl::StatusCode code, const std::string& why) const {
    const absl::Status status = ReadPrivateFile(path, kBytesMax).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(status.message(), why);
  }

  const ShortFolder short_folder_;
  const std::string& folder_ = short_folder_.path();
  std::string path_;
};

TEST_F(PrivateFile, WhatWasWrittenIsRead) {
  const std::string content("one\0two", 7);
  ASSERT_TRUE(WritePrivateFile(path_, content).ok());
  EXPECT_EQ(ReadPrivateFile(path_, 7).value(), content);
  ASSERT_TRUE(WritePrivateFile(path_, "three").ok());
  EXPECT_EQ(ReadPrivateFile(path_, 7).value(), "three");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(PrivateFile, ItIsForItsOwnerAloneWhateverTheUmask) {
  for (const mode_t mask : {0, 022, 0777}) {
    const std::string path = absl::StrCat(folder_, "/new", mask, "/deep/key.pem");
    const mode_t before = umask(0);
    // The folders belong to this test alone only if the umask permits their owner access.
    ASSERT_TRUE(WritePrivateFile(absl::StrCat(folder_, "/new", mask, "/deep/first"), "").ok());
    umask(mask);
    const absl::Status written = WritePrivateFile(path, "secret");
    umask(before);
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_EQ(Mode(path), 0600);
    EXPECT_EQ(Mode(absl::StrCat(folder_, "/new", mask, "/deep")), 0700);
    EXPECT_EQ(ReadPrivateFile(path, kBytesMax).value(), "secret");
  }
}

TEST_F(PrivateFile, AnOldFileThatOthersCouldReadIsReplacedNotFilled) {
  std::ofstream(path_) << "old";
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  const UniqueFd old(open(path_.c_str(), O_RDONLY));
  ASSERT_TRUE(WritePrivateFile(path_, "secret").ok());
  EXPECT_EQ(Mode(path_), 0600);
  char got[10] = "";
  EXPECT_EQ(read(old.get(), got, sizeof got), 3);
  EXPECT_STREQ(got, "old");
}

TEST_F(PrivateFile, AFailedWriteLeavesNothingBehind) {
  fs::create_directories(path_ + "/is_a_folder");
  EXPECT_FALSE(WritePrivateFile(path_, "secret").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  const absl::Status status = WritePrivateFile("/dev/null/key.pem", "secret");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
}

TEST_F(PrivateFile, AMissingOneIsNotFound) {
  ExpectRefused(path_, absl::StatusCode::kNotFound, path_ + ": No such file or directory");
}

TEST_F(PrivateFile, OneThatOthersMayReadOrChangeIsRefused) {
  ASSERT_TRUE(WritePrivateFile(path_, "secret").ok());
  for (const auto& [mode, what] :
       std::vector<std::pair<mode_t, std::string>>{{0644, "mode 0644 lets others read"},
                                                   {0640, "mode 0640 lets others read"},
                                                   {0604, "mode 0604 lets others read"},
                                                   {0620, "mode 0620 lets others change"},
                                                   {0602, "mode 0602 lets others change"},
                                                   {0777, "mode 0777 lets others read"}}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    ExpectRefused(path_, absl::StatusCode::kFailedPrecondition,
                  absl::StrCat(path_, ": ", what, " the secret in it: chmod 600 ", path_));
  }
  for (const mode_t mode : {0600, 0400, 0700}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_TRUE(ReadPrivateFile(path_, kBytesMax).ok());
  }
}

TEST_F(PrivateFile, ALinkIsFollowedAndTheFileBehindItCounts) {
  ASSERT_TRUE(WritePrivateFile(path_, "secret").ok());
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_EQ(ReadPrivateFile(link, kBytesMax).value(), "secret");
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(ReadPrivateFile(link, kBytesMax).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(PrivateFile, WhatIsNoRegularFileIsRefusedAndNothingWaits) {
  ExpectRefused(folder_, absl::StatusCode::kFailedPrecondition, folder_ + ": not a regular file");
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectRefused(path_, absl::StatusCode::kFailedPrecondition, path_ + ": not a regular file");
  ExpectRefused("/dev/zero", absl::StatusCode::kFailedPrecondition,
                "/dev/zero: not a regular file");
}

TEST_F(PrivateFile, ALargerOneThanAllowedIsRefused) {
  ASSERT_TRUE(WritePrivateFile(path_, std::string(kBytesMax, 'x')).ok());
  EXPECT_EQ(ReadPrivateFile(path_, kBytesMax)->size(), kBytesMax);
  ASSERT_TRUE(WritePrivateFile(path_, std::string(kBytesMax + 1, 'x')).ok());
  ExpectRefused(path_, absl::StatusCode::kFailedPrecondition, path_ + ": larger than 100 bytes");
}

// Only root can change a file's owner or become another user.
TEST_F(PrivateFile, RootReadsThoseOfOthersAndWritesThemForTheirFoldersOwner) {
  ASSERT_TRUE(WritePrivateFile(path_, "secret").ok());
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const auto refused = [&](const std::string& path, const std::string& why) {
    return ReadPrivateFile(path, kBytesMax).status() == absl::PermissionDeniedError(why);
  };
  const bool could = AsOtherUser([&] {
    return refused(path_, path_ + ": belongs to uid 0, you are uid 12345: run as that user, or " +
                              "chown 12345 " + path_);
  });
  ASSERT_EQ(could, chown(path_.c_str(), kOtherUser, kOtherUser) == 0);
  if (!could) GTEST_SKIP() << "takes root, outside of a namespace";
  EXPECT_TRUE(ReadPrivateFile(path_, kBytesMax).ok());
  EXPECT_TRUE(AsOtherUser([&] { return ReadPrivateFile(path_, kBytesMax).ok(); }));
  ASSERT_EQ(chmod(path_.c_str(), 0000), 0);
  EXPECT_TRUE(AsOtherUser([&] {
    return refused(path_, path_ + ": mode 0000 does not let you read it: chmod 600 " + path_);
  }));
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  EXPECT_TRUE(AsOtherUser([&] {
    return refused(path_, path_ + ": you are uid 12345, who may not look into its folder: run as " +
                              "the user whose that is");
  }));
  ASSERT_EQ(chown(folder_.c_str(), kOtherUser, kOtherUser), 0);
  ASSERT_TRUE(WritePrivateFile(path_, "by root").ok());
  EXPECT_EQ(Mode(path_), 0600);
  EXPECT_TRUE(AsOtherUser([&] {
    const auto read = ReadPrivateFile(path_, kBytesMax);
    return read.ok() && *read == "by root";
  }));
}

}  // namespace
}  // namespace strata::keys
