#ifndef STRATA_KERNELS_DEVICE_TEST_DEVICES_H_
#define STRATA_KERNELS_DEVICE_TEST_DEVICES_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/device/device.h"

// Lets test suites run on the fake devices (kernels/cuda:fake_test_devices) as well as on real ones
// (tests/gpu/device_tests.cc): the program that links them decides. Tests of features that only the
// fake ones have, such as deliberate failures, are in suites whose names end in "OnFake".
namespace strata::device {

struct TestDevices {
  std::function<std::shared_ptr<Devices>()> find;
  // Sets options of the fake ones (kernels/fake_cuda/control.h), in the plugin's syntax; otherwise
  // null.
  std::function<absl::Status(const std::string& options)> configure = nullptr;
  // Bytes that this process has on them; null: not counted.
  std::function<size_t()> allocated_bytes = nullptr;
};

// Sets the devices of all tests, before the first one.
void SetTestDevices(TestDevices devices);

std::shared_ptr<Devices> FindTestDevices();
size_t TestDeviceCount();
// Does nothing unless these are the fake ones.
void ConfigureTestDevices(const std::string& options);
// 0 if not counted.
size_t TestDeviceBytes();

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_TEST_DEVICES_H_
