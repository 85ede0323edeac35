#ifndef STRATA_KERNELS_DEVICE_HOST_KERNELS_H_
#define STRATA_KERNELS_DEVICE_HOST_KERNELS_H_

#include <memory>

#include "kernels/device/device.h"
#include "kernels/kernels.h"

namespace strata::device {

// Presents, for tests, a device's kernels as if they were the host's, so that they pass what every
// device must (kernels/testing/conformance.h). Each call copies its buffers to the device, where
// they lie at the same places within 16 bytes (payloads at multiples of 16) between sentinels; what
// is written outside of them is a failure of the test. `device` outlives all calls; one at a time
// in a process.
const kernels::Kernels& AsHostKernels(std::shared_ptr<Device> device);

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_HOST_KERNELS_H_
