#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/device/host_kernels.h"
#include "kernels/testing/conformance.h"

namespace strata::kernels {
namespace {

const Kernels& OnFakeDevice() {
  static const auto devices = cuda::FindDevices();
  static const auto device = devices.ok() ? (*devices)->Use(0) : devices.status();
  EXPECT_TRUE(device.ok()) << device.status();
  return device::AsHostKernels(*device);
}

INSTANTIATE_TEST_SUITE_P(FakeDevice, KernelsConformance, testing::Values(&OnFakeDevice));

}  // namespace
}  // namespace strata::kernels
