// Suites that a program with this runs are on the fake devices.
#include "kernels/cuda/device.h"
#include "kernels/device/test_devices.h"
#include "kernels/fake_cuda/control.h"

namespace strata::cuda {
namespace {

const bool kSet = [] {
  device::SetTestDevices(
      {.find = [] { return std::shared_ptr<device::Devices>(FindDevices().value()); },
       .configure = &fake_cuda::ConfigureFrom,
       .allocated_bytes = &fake_cuda::AllocatedBytes});
  return true;
}();

}  // namespace
}  // namespace strata::cuda
