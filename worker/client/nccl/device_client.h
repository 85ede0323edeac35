#ifndef STRATA_WORKER_CLIENT_NCCL_DEVICE_CLIENT_H_
#define STRATA_WORKER_CLIENT_NCCL_DEVICE_CLIENT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/client/link/rank_link.h"
#include "worker/client/nccl/device_steps.h"

namespace strata::nccl {

// What the two links of this folder have in common towards a client.

// Says that from now on the client's arenas are those on the device.
inline void ShowArenas(const DeviceSteps& steps, client::RunFacts* run) {
  run->device = steps.device();
  run->weights = steps.weights_memory();
  run->gradients = steps.gradients_memory();
}

// The event that says when what was given to `stream` so far is done; null without a stream. It is
// made once and kept in `event`.
inline absl::StatusOr<const device::Event*> RecordIn(device::Stream* stream, device::Device* device,
                                                     std::unique_ptr<device::Event>* event) {
  if (stream == nullptr) return nullptr;
  if (*event == nullptr) {
    absl::StatusOr<std::unique_ptr<device::Event>> made = device->NewEvent();
    if (!made.ok()) return made.status();
    *event = *std::move(made);
  }
  if (absl::Status status = stream->Record(event->get()); !status.ok()) return status;
  return event->get();
}

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_DEVICE_CLIENT_H_
