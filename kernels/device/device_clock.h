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

// When a device has reached its events, on a clock of the host's. Devices tell only how long it was
// from one event to another. So one of this clock's own, the anchor, is recorded in an idle stream
// between two looks at the host's clock, and taken to be half way between them.
//
// Error: half of the time between these looks (error()), some microseconds unless the host is busy;
// the drift of one clock from the other since the anchor, for hosts' and devices' oscillators
// mostly below 0.05 ms in a second, 0.5 ms while the host's clock is being set right; and 1 us of
// SecondsSince. KeepUp looks for a better anchor every kAnchorEvery; where the device is busy with
// what other processes give it, there may be none for a while.
//
// Threads: one.
class DeviceClock {
 public:
  static constexpr absl::Duration kAnchorEvery = absl::Milliseconds(100);

  // Makes a first anchor; waits until the device has reached it. Errors: those of Device.
  static absl::StatusOr<std::unique_ptr<DeviceClock>> Create(
      std::shared_ptr<Device> device, std::function<absl::Time()> now = &absl::Now);

  // Waits for the device, mostly no longer than 1 ms, and 20 ms where the anchor may have become
  // wrong by as much; where the device does not come, the anchor stays.
  absl::Status KeepUp();

  // Returns when the event, one of the device's, timed and done, came. Errors: Device's.
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
  // The best of some, if there is one in time.
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
