#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_TRACE_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/trace/trace_log.h"
#include "kernels/device/device.h"
#include "kernels/device/device_clock.h"

namespace strata::worker {

// Notes in a node's trace what its devices do and when, by timed events between the pieces of work
// in their streams. What stands in the trace lies between the host's queueing of it and the host's
// seeing that it is done, and behind what the stream did before, whatever the error of DeviceClock.
//
// Threads: one.
class DeviceTrace {
 public:
  // What one stream does for a chunk, one phase after the other. An empty one, as of steps that are
  // not traced, takes nothing and does nothing.
  class Spans {
   public:
    Spans() = default;
    bool empty() const { return trace_ == nullptr; }
    // The stream has been given all that the phase is. Errors: those of device::Device.
    absl::Status Did(TraceLog::Phase phase);

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

  // Of a device's stream: its number below, from 0 on. Waits for the device. Errors: those of
  // device::Device.
  absl::StatusOr<size_t> AddLane(const std::shared_ptr<device::Device>& device,
                                 device::Stream* stream);

  // Before the first phase of a chunk's step in the lane. Empty where the step is not traced.
  absl::StatusOr<Spans> Begin(size_t lane, ChunkId chunk, uint64_t clock);
  // In a chain each of the spans began when the one before had ended. REQUIRES: all of it is done;
  // spans of a lane come in the order of Begin.
  absl::Status Note(std::vector<Spans> all, bool is_chain);

 private:
  struct UsedDevice {
    std::shared_ptr<device::Device> device;
    std::unique_ptr<device::DeviceClock> clock;
    std::vector<std::unique_ptr<device::Event>> free_events;
  };
  struct Lane {
    device::Stream* stream;
    size_t device;                            // of devices_
    absl::Time until = absl::InfinitePast();  // end of what was noted last
  };

  // An event of the lane's device, recorded in its stream.
  absl::StatusOr<std::unique_ptr<device::Event>> Record(size_t lane);

  TraceLog& log_;
  std::vector<UsedDevice> devices_;
  std::vector<Lane> lanes_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_TRACE_H_
