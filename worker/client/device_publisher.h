#ifndef STRATA_WORKER_CLIENT_DEVICE_PUBLISHER_H_
#define STRATA_WORKER_CLIENT_DEVICE_PUBLISHER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "kernels/device/device.h"

namespace strata::client {

// Publishes chunks once a device has computed their gradients, so that whoever queues its work need
// not wait for it: a thread that waits for events, in the order in which they came.
//
// Threads: one calls; `publish` is called on the publisher's own.
class DevicePublisher {
 public:
  using Publish = std::function<absl::Status(absl::Span<const ChunkId> chunks, uint64_t step)>;

  DevicePublisher(std::shared_ptr<device::Device> device, Publish publish);
  // Drops chunks that have not been published.
  ~DevicePublisher();

  // The chunks' gradients are complete once what `stream` has been given until now is done. Errors:
  // the stream's; what went wrong with chunks before.
  absl::Status PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                            uint64_t step);
  // Blocks until all of them are published, or `still_wanted` (null: it is), asked every 100 ms,
  // says otherwise. Errors: the first that a chunk met with.
  absl::Status Drain(const device::StillWanted& still_wanted = nullptr);

 private:
  struct Item {
    std::unique_ptr<device::Event> event;
    std::vector<ChunkId> chunks;
    uint64_t step = 0;
  };

  void Run();
  // One that was used before, or a new one.
  absl::StatusOr<std::unique_ptr<device::Event>> TakeEvent();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || !items_.empty(); }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return items_.empty() && !under_way_; }

  const std::shared_ptr<device::Device> device_;
  const Publish publish_;
  absl::Mutex mutex_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
  bool under_way_ ABSL_GUARDED_BY(mutex_) = false;  // an item that is no longer among them
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<device::Event>> free_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_DEVICE_PUBLISHER_H_
