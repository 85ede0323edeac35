#ifndef STRATA_KERNELS_DEVICE_DEVICE_CLOCK_H_
#define STRATA_KERNELS_DEVICE_DEVICE_CLOCK_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/device/device.h"

namespace strata::device {

// Converts the times of a device's events to a clock of the host's. Devices only measure the time
// between two events. So an event of this clock's own, the anchor, is recorded in an idle stream
// between two readings of the host's clock, and assumed to be half way between them.
//
// Error: half of the time between these readings (error()), some microseconds unless the host is
// busy; the drift between the clocks since the anchor, mostly below 0.05 ms per second for hosts'
// and devices' oscillators, 0.5 ms while the host's clock is being adjusted; and 1 us of
// SecondsSince. KeepUp tries for a better anchor every kAnchorEvery; while other processes keep the
// device busy, there may be none for a while.
//
// Threads: one.
class DeviceClock {
 public:
  static constexpr absl::Duration kAnchorEvery = absl::Milliseconds(100);

  // Makes a first anchor; waits for the device. Errors: those of Device.
  static absl::StatusOr<std::unique_ptr<DeviceClock>> Create(
      std::shared_ptr<Device> device, std::function<absl::Time()> now = &absl::Now);

  // Waits for the device, mostly no longer than 1 ms, and up to 20 ms if the anchor's error may
  // have grown that much; if the device does not answer in time, the anchor stays.
  absl::Status KeepUp();

  // Returns when the event, one of the device's, timed and done, happened. Errors: Device's.
  absl::StatusOr<absl::Time> TimeOf(const Event& event) const;
  absl::Duration error() const { return anchor_.error; }

 private:
  // A point that the device and the host have both seen.
  struct Anchor {
    std::unique_ptr<Event> event;
    absl::Time at;
    absl::Duration error = absl::InfiniteDuration();
  };

  DeviceClock(std::shared_ptr<Device> device, std::function<absl::Time()> now)
      : device_(std::move(device)), now_(std::move(now)) {}

  absl::Status Init();
  // Takes the best of several, if there is one in time.
  absl::Status NewAnchor();

  const std::shared_ptr<Device> device_;
  const std::function<absl::Time()> now_;
  std::unique_ptr<Stream> stream_;
  Anchor anchor_;
  std::unique_ptr<Event> spare_;
  absl::Time tried_at_;  // for an anchor
};

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_DEVICE_CLOCK_H_
