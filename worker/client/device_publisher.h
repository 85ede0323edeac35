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

// Publishes chunks once a device has computed their gradients, so that the caller that queues the
// device's work need not wait: a thread waits for the events, in their order.
//
// Threads: one calls; `publish` is called on the publisher's own.
class DevicePublisher {
 public:
  using Publish = std::function<absl::Status(absl::Span<const ChunkId> chunks, uint64_t step)>;

  DevicePublisher(std::shared_ptr<device::Device> device, Publish publish);
  // Drops chunks that have not been published.
  ~DevicePublisher();

  // The chunks' gradients are complete once the work queued in `stream` so far is done. Errors: the
  // stream's; those of earlier chunks.
  absl::Status PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                            uint64_t step);
  // Blocks until all of them are published, or `still_wanted`, called every 100 ms, returns false
  // (null: always true). Errors: the first one of any chunk.
  absl::Status Drain(const device::StillWanted& still_wanted = nullptr);

 private:
  struct Item {
    std::unique_ptr<device::Event> event;
    std::vector<ChunkId> chunks;
    uint64_t step = 0;
  };

  void Run();
  // Returns a reused event, or a new one.
  absl::StatusOr<std::unique_ptr<device::Event>> TakeEvent();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || !items_.empty(); }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return items_.empty() && !under_way_; }

  const std::shared_ptr<device::Device> device_;
  const Publish publish_;
  absl::Mutex mutex_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
  bool under_way_ ABSL_GUARDED_BY(mutex_) = false;  // an item that was taken off the queue
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<device::Event>> free_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_DEVICE_PUBLISHER_H_
