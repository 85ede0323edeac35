#ifndef STRATA_WORKER_CONTRACT_DEVICE_TRACE_H_
#define STRATA_WORKER_CONTRACT_DEVICE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/job/trace_log.h"
#include "kernels/device/device.h"
#include "kernels/device/device_clock.h"

namespace strata::worker {

// Records in a process's trace what its devices do and when, using timed events between the
// operations in their streams. Whatever the error of DeviceClock, a recorded span lies between the
// host's queueing of the work and the host's noticing that it is done, and after the stream's
// earlier work.
//
// Threads: the log's calls AddLane and Note, and destroys this and its Spans; any one thread, once
// all lanes exist, Begin and Did, which never wait for a device.
class DeviceTrace {
 public:
  // The work of one stream for a chunk, phase by phase. An empty one, for steps that are not
  // traced, does nothing.
  class Spans {
   public:
    Spans() = default;
    bool empty() const { return trace_ == nullptr; }
    // All work of the phase has been queued in the stream. Errors: those of device::Device.
    absl::Status Did(TraceLog::Phase phase);
    // Returns whether the stream has completed it. Errors: likewise.
    absl::StatusOr<bool> Done() const;

   private:
    friend class DeviceTrace;
    struct Phase {
      TraceLog::Phase phase;
      std::unique_ptr<device::Event> end;
    };

    DeviceTrace* trace_ = nullptr;  // null: empty
    size_t lane_ = 0;
    ChunkId chunk_;
    uint64_t clock_ = 0;
    absl::Time queued_;
    std::unique_ptr<device::Event> begin_;
    std::vector<Phase> phases_;
  };

  // `log` outlives this, which outlives its Spans.
  explicit DeviceTrace(TraceLog* log) : log_(*log) {}

  // Adds a device's stream and returns its lane number, counted from 0. Waits for the device.
  // Errors: those of device::Device.
  absl::StatusOr<size_t> AddLane(const std::shared_ptr<device::Device>& device,
                                 device::Stream* stream);

  // Begins the spans of a chunk's step in the lane, before its first phase. Empty if the step is
  // not traced.
  absl::StatusOr<Spans> Begin(size_t lane, ChunkId chunk, uint64_t clock);
  // Records completed spans; those of a lane in the order of Begin. In a chain each began when the
  // previous one ended. May wait for the devices, like DeviceClock::KeepUp.
  absl::Status Note(std::vector<Spans> all, bool is_chain);

 private:
  struct UsedDevice {
    std::shared_ptr<device::Device> device;
    std::unique_ptr<device::DeviceClock> clock;
  };
  struct Lane {
    device::Stream* stream;
    size_t device;                            // index into devices_
    absl::Time until = absl::InfinitePast();  // end of the last recorded span
  };

  // Returns an event of the lane's device, recorded in its stream.
  absl::StatusOr<std::unique_ptr<device::Event>> Record(size_t lane);
  // Returns an event for reuse; may be null.
  std::unique_ptr<device::Event> FreeEvent(size_t device) ABSL_LOCKS_EXCLUDED(mutex_);

  TraceLog& log_;  // Begin reads only immutable parts of it
  std::vector<UsedDevice> devices_;
  std::vector<Lane> lanes_;

  absl::Mutex mutex_;
  std::vector<std::vector<std::unique_ptr<device::Event>>> free_events_
      ABSL_GUARDED_BY(mutex_);  // by device
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_CONTRACT_DEVICE_TRACE_H_
