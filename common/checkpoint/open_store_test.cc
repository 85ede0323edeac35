#include "common/checkpoint/open_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace strata {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::StartsWith;

fs::path Folder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::remove_all(folder);
  return folder;
}

TEST(OpenStore, OpensAFolderByAPathFromTheWorkingDirectory) {
  const fs::path folder = Folder("open_store_here");
  fs::create_directories(folder / "clock-1");
  std::ofstream(folder / "clock-1" / "a") << "content";
  const auto store = OpenStoreThatIsThere(fs::relative(folder).string(), {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->where(), folder.lexically_normal().string());
  EXPECT_THAT(*(*store)->List(), ElementsAre("clock-1/a"));
}

TEST(OpenStore, MakesNoFolderThatIsMissing) {
  const fs::path folder = Folder("open_store_missing");
  const auto store = OpenStoreThatIsThere(folder.string(), {});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(store.status().message()), StartsWith(folder.string() + ": "));
  EXPECT_FALSE(fs::exists(folder));
}

TEST(OpenStore, RefusesWhatIsNoFolder) {
  const fs::path file = Folder("open_store_file");
  std::ofstream(file) << "content";
  for (const std::string& address : {file.string(), std::string()}) {
    EXPECT_EQ(OpenStoreThatIsThere(address, {}).status().code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace strata
