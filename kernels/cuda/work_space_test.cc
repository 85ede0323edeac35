// The memory that streams ask for by themselves, as the fake device counts it.
#include <cstdint>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/device/device_kernels.h"
#include "kernels/fake_cuda/control.h"

namespace strata::cuda {
namespace {

class WorkSpaceTest : public testing::Test {
 protected:
  WorkSpaceTest() {
    fake_cuda::Configure({});
    device_ = FindDevices().value()->Use(0).value();
  }

  const device::DeviceSparseCodec& Sparse() const { return device_->kernels().sparse; }

  std::shared_ptr<device::Device> device_;
};

TEST_F(WorkSpaceTest, AStreamTakesItsWorkSpaceWhenItIsFirstNeededAndGivesItBack) {
  const size_t before = fake_cuda::AllocatedBytes();
  auto stream = device_->NewStream(false).value();
  const device::Memory word = device_->Allocate(4, "a count").value();
  EXPECT_EQ(fake_cuda::AllocatedBytes(), before + 4);
  auto* const count = reinterpret_cast<uint32_t*>(word.get());
  ASSERT_TRUE(Sparse().select(*stream, nullptr, 1, {}, 0, count).ok());
  const size_t with_work_space = fake_cuda::AllocatedBytes();
  EXPECT_GT(with_work_space, before + 4);
  ASSERT_TRUE(Sparse().select(*stream, nullptr, 1, {}, 0, count).ok());
  EXPECT_EQ(fake_cuda::AllocatedBytes(), with_work_space);
  stream.reset();
  EXPECT_EQ(fake_cuda::AllocatedBytes(), before + 4);
}

TEST_F(WorkSpaceTest, WithoutMemoryForTheWorkSpaceNothingIsDoneAndTheErrorSaysWhy) {
  const device::Memory word = device_->Allocate(4, "a count").value();
  fake_cuda::Settings settings;
  settings.memory_bytes = fake_cuda::AllocatedBytes() + 512;
  fake_cuda::Configure(settings);
  auto stream = device_->NewStream(false).value();
  const absl::Status status =
      Sparse().select(*stream, nullptr, 1, {}, 0, reinterpret_cast<uint32_t*>(word.get()));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      std::string(status.message()),
      "device 0: out of memory: 9.5 KiB asked for a stream's work space, 0.5 KiB of 4096.0 MiB "
      "free on the device");
  EXPECT_TRUE(device_->Health().ok());
  fake_cuda::Configure({});
}

}  // namespace
}  // namespace strata::cuda
