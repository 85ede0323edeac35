#include "kernels/device/test_devices.h"

#include <utility>

#include "gtest/gtest.h"

namespace strata::device {
namespace {

TestDevices& Mutable() {
  static TestDevices devices;
  return devices;
}

}  // namespace

void SetTestDevices(TestDevices devices) { Mutable() = std::move(devices); }

std::shared_ptr<Devices> FindTestDevices() { return Mutable().find(); }

size_t TestDeviceCount() { return FindTestDevices()->infos().size(); }

void ConfigureTestDevices(const std::string& options) {
  if (Mutable().configure == nullptr) return;
  const absl::Status status = Mutable().configure(options);
  EXPECT_TRUE(status.ok()) << status;
}

size_t TestDeviceBytes() {
  return Mutable().allocated_bytes != nullptr ? Mutable().allocated_bytes() : 0;
}

}  // namespace strata::device
