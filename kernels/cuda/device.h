#ifndef STRATA_KERNELS_CUDA_DEVICE_H_
#define STRATA_KERNELS_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"

namespace strata::cuda {

// All devices that CUDA's driver shows to this process. Errors: Unavailable (no driver, one that is
// too old, with both versions, or no device).
absl::StatusOr<std::unique_ptr<device::Devices>> FindDevices();

// The kernels of this folder, for streams that FindDevices' devices made.
const device::DeviceKernels& Kernels();

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_DEVICE_H_
