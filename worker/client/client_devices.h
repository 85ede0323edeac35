#ifndef STRATA_WORKER_CLIENT_CLIENT_DEVICES_H_
#define STRATA_WORKER_CLIENT_CLIENT_DEVICES_H_

#include "absl/status/status.h"

namespace strata::device {
class Device;
class Stream;
}  // namespace strata::device

namespace strata::client {

// What a program does with its rank's GPU, in jobs with `device: GPU`: Client::devices(). Programs
// that keep their tensors on the host need none of it.
//
// Threads: the client's.
class ClientDevices {
 public:
  virtual ~ClientDevices() = default;

  // Says that the program can have MAPPED tensors on a device, whose memory the host cannot touch.
  // Before Allocate, which fails where the job has GPUs, a tensor is MAPPED and this was not said.
  // Means nothing in other jobs.
  virtual void Accept() = 0;

  // The device that the rank computes on, once Start has returned; null: the job wants none.
  virtual device::Device* device() const = 0;

  // Makes Wait, Publish and FinishStep points in `stream`, which the caller computes in: they no
  // longer wait for it. What is queued after Wait finds the weights there; the gradient is complete
  // once what was queued before Publish is done. Null: they wait again. Between steps; `stream`
  // outlives the last step in it, or the call with null. Errors: FailedPrecondition (no device(),
  // or within a step).
  virtual absl::Status ComputeIn(device::Stream* stream) = 0;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CLIENT_DEVICES_H_
