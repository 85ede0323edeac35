#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_DECODE_PAYLOAD_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_DECODE_PAYLOAD_H_

#include <cstddef>

#include "absl/status/status.h"
#include "compression/checked_payload.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"

namespace strata::worker {

// Queues the addition of the payload, which lies at `at` on the device, to as many weights there as
// it has elements. `verdict`: on the device; what comes there is not looked at. Errors: those of
// device::Stream.
absl::Status DecodePayload(const device::DeviceKernels& kernels, device::Stream& stream,
                           const kernels::CheckedPayload& payload, const std::byte* at,
                           float* weights, device::Verdict* verdict);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_DECODE_PAYLOAD_H_
