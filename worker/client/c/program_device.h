#ifndef STRATA_WORKER_CLIENT_C_PROGRAM_DEVICE_H_
#define STRATA_WORKER_CLIENT_C_PROGRAM_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "proto/processes.pb.h"
#include "worker/client/client_devices.h"

namespace strata::client {

// The rank's GPU as a program uses it that does not call CUDA itself: the stream that it computes
// in, copies, memory. The device is taken into use by the first call that needs it.
//
// Threads: one at a time. Errors of all calls, besides: FailedPrecondition (the rank has no
// device), those of the device.
class ProgramDevice {
 public:
  // `launch` outlives this.
  explicit ProgramDevice(const proto::Launch& launch) : launch_(launch) {}

  // The device's number; -1: the job wants none.
  int32_t index() const;

  // See strata_compute_in.
  absl::Status ComputeIn(void* cuda_stream, ClientDevices& devices);
  // The stream that copies are made in.
  absl::StatusOr<void*> StreamInUse();
  // See strata_copy. Errors, besides: InvalidArgument (`ready_in` is no stream of the device).
  absl::Status Copy(void* to, const void* from, size_t bytes, void* ready_in);
  // Returns memory that lives as long as this.
  absl::StatusOr<void*> Allocate(size_t bytes);

 private:
  // Takes the device into use, and makes a stream of it.
  absl::Status Open();
  device::Stream& InUse() const { return adopted_ != nullptr ? *adopted_ : *own_; }

  const proto::Launch& launch_;
  std::shared_ptr<device::Device> device_;  // null: not in use yet
  std::unique_ptr<device::Stream> own_;
  std::unique_ptr<device::Stream> adopted_;  // the program's; null: none
  std::unique_ptr<device::Event> ready_;
  std::vector<device::Memory> memory_;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_PROGRAM_DEVICE_H_
