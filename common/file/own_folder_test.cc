#include "common/file/own_folder.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

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
