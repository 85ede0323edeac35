// Requirements on cuDNN and cuBLAS beyond right results: engines keep to the precision, products
// are added up in fp32, and any thread may call.
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/device/layers.h"
#include "kernels/fake_cuda/control.h"

namespace strata::cuda {
namespace {

using device::ConvolutionPass;
using device::Precision;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr device::ConvolutionShape kShape = {.channels = 8, .height = 4, .width = 4, .outputs = 8};
constexpr uint16_t kOne = 0x3f80;  // bf16

class CudnnEnginesTest : public testing::Test {
 protected:
  CudnnEnginesTest() {
    fake_cuda::Configure({.devices = 2});
    devices_ = FindDevices().value();
  }
  ~CudnnEnginesTest() override { fake_cuda::Configure({}); }

  // On a device; the lines that are logged are kept.
  std::shared_ptr<device::Layers> Open(device::Device& on, Precision precision) {
    device::LayersOptions options;
    options.precision = precision;
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    return on.OpenLayers(options).value();
  }

  std::unique_ptr<device::Devices> devices_;
  std::vector<std::string> lines_;
};

// Two of those that are proposed take less time, but convert inputs or add up in less than fp32.
TEST_F(CudnnEnginesTest, TheFastestEngineIsTakenOfThoseThatKeepToThePrecision) {
  const auto device = devices_->Use(0).value();
  const auto chosen = [&](Precision precision) {
    const auto layers = Open(*device, precision);
    lines_.clear();
    EXPECT_EQ(layers->Prepare(ConvolutionPass::kForward, kShape), absl::OkStatus());
    return lines_;
  };
  EXPECT_THAT(chosen(Precision::kFloat32), ElementsAre(HasSubstr("engine 0, ")));
  EXPECT_THAT(chosen(Precision::kTensorFloat32), ElementsAre(HasSubstr("engine 1, ")));
  EXPECT_THAT(chosen(Precision::kBFloat16), ElementsAre(HasSubstr("engine 1, ")));
}

TEST_F(CudnnEnginesTest, ProductsOfBFloat16AreAddedUpInFloat32) {
  const auto device = devices_->Use(0).value();
  const auto layers = Open(*device, Precision::kBFloat16);
  constexpr size_t kInner = 1024;
  const std::vector<uint16_t> ones(kInner, kOne);
  const auto memory = device->Allocate(2 * kInner + 16, "a test").value();
  auto& stream = layers->stream();
  std::byte* const product = memory.get() + 2 * kInner;
  uint16_t sum = 0;
  ASSERT_EQ(stream.Copy(memory.get(), ones.data(), 2 * kInner), absl::OkStatus());
  ASSERT_EQ(layers->Multiply({.k = kInner}, memory.get(), memory.get(), device::Element::kBFloat16,
                             product),
            absl::OkStatus());
  ASSERT_EQ(stream.Copy(&sum, product, sizeof sum), absl::OkStatus());
  ASSERT_EQ(stream.Synchronize(), absl::OkStatus());
  EXPECT_EQ(sum, 0x4480);  // 1024
}

TEST_F(CudnnEnginesTest, AThreadThatLastUsedAnotherDeviceMayCall) {
  const auto other = devices_->Use(0).value();
  const auto device = devices_->Use(1).value();
  const auto layers = Open(*device, Precision::kFloat32);
  const auto memory = device->Allocate(4096, "a test").value();
  std::thread([&] {
    ASSERT_TRUE(other->FreeBytes().ok());
    EXPECT_EQ(layers->Prepare(ConvolutionPass::kForward, kShape), absl::OkStatus());
    std::byte* const at = memory.get();
    ASSERT_TRUE(other->FreeBytes().ok());
    EXPECT_EQ(layers->Convolve(ConvolutionPass::kForward, kShape, at, at + 1024, at + 2048),
              absl::OkStatus());
    ASSERT_TRUE(other->FreeBytes().ok());
    EXPECT_EQ(layers->Multiply({}, at, at, device::Element::kFloat32, at + 1024), absl::OkStatus());
    EXPECT_EQ(layers->stream().Synchronize(), absl::OkStatus());
  }).join();
}

}  // namespace
}  // namespace strata::cuda
