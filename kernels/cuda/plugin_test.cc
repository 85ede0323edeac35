// The plugin for the fake device, loaded as the program loads one.
#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"
#include "kernels/device/load_plugin.h"

namespace strata::device {
namespace {

constexpr char kPath[] = "kernels/cuda/libstrata_fake_device.so";
std::string With(const std::string& options) { return absl::StrCat(kPath, ",", options); }

TEST(PluginTest, OptionsSayWhichDevicesThereAre) {
  EXPECT_EQ(LoadPlugin(kPath).value()->infos().size(), 1u);
  const auto devices = LoadPlugin(With("devices=3,memory_mb=64")).value();
  ASSERT_EQ(devices->infos().size(), 3u);
  EXPECT_EQ(devices->Use(2).value()->FreeBytes().value(), size_t{64} << 20);
}

TEST(PluginTest, KernelsOfAPluginRun) {
  const auto device = LoadPlugin(kPath).value()->Use(0).value();
  const auto stream = device->NewStream(false).value();
  const Memory memory = device->Allocate(3 * sizeof(float), "a test").value();
  auto* const at = reinterpret_cast<float*>(memory.get());
  auto* const verdict = reinterpret_cast<Verdict*>(at + 2);
  std::vector<float> values = {1.5f, 2.25f, 0};
  const std::vector<const float*> inputs = {at, at + 1};
  ASSERT_EQ(stream->Copy(at, values.data(), 12), absl::OkStatus());
  ASSERT_EQ(stream->Fill(verdict, kGoodByte, 4), absl::OkStatus());
  ASSERT_EQ(device->kernels().sum(*stream, inputs, at, 1, verdict), absl::OkStatus());
  ASSERT_EQ(stream->Copy(values.data(), at, 4), absl::OkStatus());
  ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
  EXPECT_EQ(values[0], 3.75f);
}

TEST(PluginTest, WhatIsNotThereOrNoPluginIsNamed) {
  EXPECT_EQ(LoadPlugin("nowhere/libnone.so,devices=2").status(),
            absl::NotFoundError("nowhere/libnone.so: is not there; it is built where CUDA's "
                                "compiler nvcc is found"));
  const std::string text = testing::TempDir() + "/text.so";
  std::ofstream(text) << "this is no library\n";
  const absl::Status status = LoadPlugin(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()), text + ": file too short");
}

TEST(PluginTest, OneThatOthersMayReplaceIsNotLoaded) {
  const std::string copy = testing::TempDir() + "/open.so";
  std::filesystem::copy_file(kPath, copy, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::permissions(copy, std::filesystem::perms(0775));
  const absl::Status status = LoadPlugin(copy + ",devices=1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("/open.so has mode 0775): chmod go-w "));
}

TEST(PluginTest, WhyThereAreNoDevicesIsSaidWithThePath) {
  const std::string path = kPath;
  EXPECT_EQ(LoadPlugin(With("driver=0")).status(),
            absl::UnavailableError(path + ": no driver for CUDA devices is installed"));
  EXPECT_EQ(LoadPlugin(With("devices=0")).status(),
            absl::UnavailableError(path + ": no CUDA-capable device is detected"));
  EXPECT_EQ(LoadPlugin(With("speed=9")).status(),
            absl::UnavailableError(path + ": speed=9: is no option of the fake device"));
}

TEST(PluginTest, APluginOfAnotherBuildRefuses) {
  ASSERT_TRUE(LoadPlugin(kPath).ok());
  void* const library = dlopen(kPath, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginEntry));
  char error[64] = {};
  EXPECT_EQ(entry("an older one", "", error, sizeof error), nullptr);
  EXPECT_STREQ(error, "it is of another build of this program");
}

}  // namespace
}  // namespace strata::device
