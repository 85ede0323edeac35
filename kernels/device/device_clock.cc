#include "kernels/device/device_clock.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"

namespace strata::device {
namespace {

constexpr absl::Duration kWaitMax = absl::Milliseconds(1);
constexpr absl::Duration kLongWaitMax = absl::Milliseconds(20);
constexpr double kDrift = 5e-5;
constexpr int kTries = 3;

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceClock>> DeviceClock::Create(std::shared_ptr<Device> device,
                                                                 std::function<absl::Time()> now) {
  auto clock = absl::WrapUnique(new DeviceClock(std::move(device), std::move(now)));
  if (absl::Status status = clock->Init(); !status.ok()) return status;
  return clock;
}

absl::Status DeviceClock::Init() {
  absl::StatusOr<std::unique_ptr<Stream>> stream = device_->NewStream(/*urgent=*/true);
  if (!stream.ok()) return stream.status();
  stream_ = *std::move(stream);
  for (std::unique_ptr<Event>* event : {&anchor_.event, &spare_}) {
    absl::StatusOr<std::unique_ptr<Event>> made = device_->NewTimedEvent();
    if (!made.ok()) return made.status();
    *event = *std::move(made);
  }
  const absl::Time before = now_();
  if (absl::Status status = stream_->Record(anchor_.event.get()); !status.ok()) return status;
  if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
  anchor_.error = (now_() - before) / 2;
  anchor_.at = before + anchor_.error;
  // The first work of a device takes longer than what follows.
  return NewAnchor();
}

absl::Status DeviceClock::NewAnchor() {
  tried_at_ = now_();
  // The possible error of the present anchor by now; an old one is worth some waiting.
  const absl::Duration drift = kDrift * std::max(tried_at_ - anchor_.at, absl::ZeroDuration());
  const absl::Duration wait_max = std::clamp(drift, kWaitMax, kLongWaitMax);
  absl::Duration narrowest = 2 * (anchor_.error + drift);
  for (int i = 0; i < kTries; ++i) {
    const absl::Time before = now_();
    if (absl::Status status = stream_->Record(spare_.get()); !status.ok()) return status;
    absl::Time after;
    for (bool is_done = false; !is_done;) {
      const absl::StatusOr<bool> done = spare_->Done();
      if (!done.ok()) return done.status();
      is_done = *done;
      after = now_();
      if (!is_done && after - before > wait_max) return absl::OkStatus();
    }
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    std::swap(anchor_.event, spare_);
    anchor_.at = before + narrowest / 2;
    anchor_.error = narrowest / 2;
  }
  return absl::OkStatus();
}

absl::Status DeviceClock::KeepUp() {
  if (absl::AbsDuration(now_() - tried_at_) < kAnchorEvery) return absl::OkStatus();
  return NewAnchor();
}

absl::StatusOr<absl::Time> DeviceClock::TimeOf(const Event& event) const {
  const absl::StatusOr<double> since = event.SecondsSince(*anchor_.event);
  if (!since.ok()) return since.status();
  return anchor_.at + absl::Seconds(*since);
}

}  // namespace strata::device
