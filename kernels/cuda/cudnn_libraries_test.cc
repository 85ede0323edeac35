// Tests where cuDNN and cuBLAS are looked for, with stand-ins for them. A process keeps a library
// that it has loaded, so each case runs in a process of its own.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/cudnn/libraries.h"
#include "kernels/cuda/runtime/plugin_options.h"

namespace strata::cuda {
namespace {

// Ends the process: 0 if there are libraries, whose version it prints, else 1 with the error.
[[noreturn]] void Load(const std::string& options) {
  if (const absl::Status status = TakeOptions(options); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    std::exit(2);
  }
  const auto libraries = LoadLibraries();
  if (libraries.ok()) {
    std::fprintf(stderr, "cuDNN %zu\n", static_cast<size_t>((*libraries)->cudnn_version()));
  } else {
    std::fprintf(stderr, "%s\n", std::string(libraries.status().message()).c_str());
  }
  std::exit(libraries.ok() ? 0 : 1);
}

// A folder with copies of the stand-ins under the names that are given.
std::string Folder(const std::string& name, const std::string& cudnn) {
  const std::filesystem::path dir = testing::TempDir() + "/" + name;
  std::filesystem::create_directories(dir);
  const auto copy = [&](const std::string& from, const char* to) {
    std::filesystem::copy_file("kernels/cuda/" + from, dir / to,
                               std::filesystem::copy_options::overwrite_existing);
  };
  copy("libcublas.so.13", "libcublas.so.13");
  if (!cudnn.empty()) copy(cudnn, "libcudnn.so.9");
  return dir;
}

TEST(CudnnLibrariesTest, TheOptionsFolderIsWhereTheyAreTakenFrom) {
  const std::string dir = Folder("both", "libcudnn.so.9");
  EXPECT_EXIT(Load("cudnn=" + dir), testing::ExitedWithCode(0), "^cuDNN 91234\n");
  EXPECT_EXIT(Load("nccl=/elsewhere,cudnn=" + dir), testing::ExitedWithCode(0), "^cuDNN 91234\n");
}

TEST(CudnnLibrariesTest, AFolderWithoutCudnnIsNamed) {
  const std::string dir = Folder("one", "");
  EXPECT_EXIT(Load("cudnn=" + dir), testing::ExitedWithCode(1),
              "^libcudnn.so.9: " + dir + "/libcudnn.so.9: cannot open");
}

TEST(CudnnLibrariesTest, ALibraryThatLacksAFunctionIsOfAnotherVersion) {
  const std::string dir = Folder("other", "libcublas.so.13");
  EXPECT_EXIT(Load("cudnn=" + dir), testing::ExitedWithCode(1),
              "^libcudnn.so.9 has no function cudnnGetVersion: it is of another version\n");
}

TEST(CudnnLibrariesTest, OptionsThatAreNoneAreRefusedByName) {
  EXPECT_EXIT(Load("cudnn="), testing::ExitedWithCode(2), "^cudnn=: is no option of CUDA devices");
  EXPECT_EXIT(Load("cublas=/x"), testing::ExitedWithCode(2),
              "^cublas=/x: is no option of CUDA devices, which have nccl=DIR, cudnn=DIR\n");
}

}  // namespace
}  // namespace strata::cuda
