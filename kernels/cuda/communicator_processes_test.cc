// Ranks that are processes add up what lies on their devices, by the fake NCCL.
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/device/communicator.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/testing.h"

namespace strata::cuda {
namespace {

absl::Status Always() { return absl::OkStatus(); }

// As that rank of two, `value` in their sum; negative: it went wrong.
float SumAs(uint32_t r, const std::string& id, float value) {
  const auto device = FindDevices().value()->Use(r).value();
  const auto stream = device->NewStream(false).value();
  const auto communicator = device->NewCommunicator(id, 2, r, Always);
  if (!communicator.ok()) return -1;
  const device::Memory memory = device->Allocate(sizeof value, "a test").value();
  auto* const at = reinterpret_cast<float*>(memory.get());
  absl::Status status = stream->Copy(at, &value, sizeof value);
  if (status.ok()) status = (*communicator)->AllReduce(*stream, at, at, 1, Always);
  if (status.ok()) status = stream->Copy(&value, at, sizeof value);
  if (status.ok()) status = stream->Synchronize();
  if (status.ok()) status = (*communicator)->Finish(Always);
  return status.ok() ? value : -2;
}

TEST(CommunicatorProcesses, HaveTheSumOfAll) {
  fake_cuda::Configure({.devices = 2});
  const std::string id = FindDevices().value()->Use(0).value()->NewCommunicatorId().value();
  fake_cuda::OtherProcess other([&](fake_cuda::OtherProcess::Line& line) {
    const float sum = SumAs(1, id, 0.25f);
    line.Send(&sum, sizeof sum);
  });
  EXPECT_EQ(SumAs(0, id, 0.5f), 0.75f);
  float sum = 0;
  ASSERT_TRUE(other.line().Receive(&sum, sizeof sum));
  EXPECT_EQ(sum, 0.75f);
  EXPECT_EQ(other.End(), 0);
}

}  // namespace
}  // namespace strata::cuda
