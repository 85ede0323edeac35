#include "kernels/cuda/runtime/find_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cuda {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr char kLibrary[] = "libstrata-test-wish.so.2";

// A library of the system's under a name that no search of the system's finds.
std::string Folder(const std::string& name) {
  const std::filesystem::path dir = testing::TempDir() + "/" + name;
  std::filesystem::create_directories(dir);
  Dl_info info = {};
  dladdr(dlsym(dlopen("libm.so.6", RTLD_NOW), "cosf"), &info);
  std::filesystem::copy_file(info.dli_fname, dir / kLibrary,
                             std::filesystem::copy_options::overwrite_existing);
  return dir;
}

LibraryWish Wish() {
  return {.file = kLibrary, .dir = "", .option = "wish", .beside = "nvidia/wish/lib"};
}

TEST(FindLibraryTest, TheSystemsSearchComesFirst) {
  LibraryWish wish = Wish();
  wish.file = "libm.so.6";
  const auto found = FindLibrary(wish, {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->path, "libm.so.6");
  EXPECT_NE(dlsym(found->handle, "cosf"), nullptr);
}

TEST(FindLibraryTest, APythonInstallationsPackageIsFound) {
  const std::string dir = Folder("py/lib/python3.12/site-packages/nvidia/wish/lib");
  const auto found =
      FindLibrary(Wish(), {"/nowhere", testing::TempDir() + "/py/lib/python3*/site-packages"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(std::filesystem::path(found->path).lexically_normal(),
            std::filesystem::path(dir + "/" + kLibrary).lexically_normal());
}

TEST(FindLibraryTest, AnOptionsFolderIsTheOnlyOneLookedInto) {
  LibraryWish wish = Wish();
  wish.dir = Folder("given");
  EXPECT_EQ(FindLibrary(wish, {}).value().path, wish.dir + "/" + kLibrary);
  wish.dir = testing::TempDir() + "/not-there";
  wish.file = "libm.so.6";
  const absl::Status status = FindLibrary(wish, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(wish.dir + "/libm.so.6: cannot open"));
}

TEST(FindLibraryTest, OneThatOthersMayReplaceIsNotTaken) {
  const std::string dir = Folder("open/lib/python3.12/site-packages/nvidia/wish/lib");
  const std::string library = dir + "/" + kLibrary;
  std::filesystem::permissions(library, std::filesystem::perms(0666));
  LibraryWish wish = Wish();
  wish.dir = dir;
  const absl::Status status = FindLibrary(wish, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(library + ": others may replace it ("));
  EXPECT_THAT(std::string(status.message()), HasSubstr(" has mode 0666): chmod go-w /"));
  EXPECT_EQ(
      FindLibrary(Wish(), {testing::TempDir() + "/open/lib/python3*/site-packages", "/nowhere"})
          .status()
          .code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST(FindLibraryTest, WhatIsNotThereIsNamedWithTheOptionThatHelps) {
  const absl::Status status = FindLibrary(Wish(), {"/nowhere"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("nor in a Python installation's nvidia/wish/lib; the plugin's option "
                        "wish=DIR says where it is"));
}

TEST(FindLibraryTest, TheSystemsPythonIsAmongTheFolders) {
  EXPECT_THAT(PythonPackageFolders(), Contains("/usr/lib/python3*/dist-packages"));
}

}  // namespace
}  // namespace strata::cuda
