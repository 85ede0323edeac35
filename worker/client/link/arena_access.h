#ifndef STRATA_WORKER_CLIENT_LINK_ARENA_ACCESS_H_
#define STRATA_WORKER_CLIENT_LINK_ARENA_ACCESS_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/require.h"
#include "kernels/device/device.h"

namespace strata::client {

// How a rank's arenas are written to and read from: by the host's own instructions or, where they
// lie on a device, through a stream.
//
// Threads: one.
class ArenaAccess {
 public:
  // Says that they lie on `device` from now on. Errors: Device::NewStream's.
  absl::Status MoveTo(std::shared_ptr<device::Device> device);
  // Queues work in `stream` from now on, which outlives the next call of this: it is not done when
  // a call returns. Null: it is. REQUIRES: MoveTo, or null.
  void QueueIn(device::Stream* stream) {
    STRATA_REQUIRE(stream == nullptr || device_ != nullptr);
    stream_ = stream;
  }

  device::Device* device() const { return device_.get(); }
  device::Stream* stream() const { return stream_; }

  // One of the two may be memory of the host in any case.
  absl::Status Copy(float* to, const float* from, size_t count);
  absl::Status Clear(absl::Span<float> values);
  // Blocks until what was queued is done.
  absl::Status Settle();

 private:
  device::Stream& InUse() const { return stream_ != nullptr ? *stream_ : *own_; }
  absl::Status After(absl::Status status);

  std::shared_ptr<device::Device> device_;  // null: the host's memory
  std::unique_ptr<device::Stream> own_;     // with device_
  device::Stream* stream_ = nullptr;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_LINK_ARENA_ACCESS_H_
