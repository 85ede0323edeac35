#include "worker/client/nccl/ring_stops.h"

#include "absl/strings/str_format.h"

namespace strata::nccl {

absl::Status RingStops::Check() {
  const uint32_t asked = asked_();
  absl::MutexLock lock(&mutex_);
  if (asked > answered_) {
    answered_ = asked;
    answer_({.number = asked, .has_begun = has_begun_, .steps = steps_, .is_over = is_over_});
  }
  if (!has_begun_ || !Stopped()) return absl::OkStatus();
  return absl::AbortedError(absl::StrFormat("stopped for ring %d", answered_));
}

bool RingStops::is_stopped() const {
  absl::MutexLock lock(&mutex_);
  return has_begun_ && Stopped();
}

void RingStops::Begin() {
  absl::MutexLock lock(&mutex_);
  has_begun_ = true;
}

bool RingStops::Make(uint64_t steps) {
  absl::MutexLock lock(&mutex_);
  if (Stopped()) return false;
  steps_ = steps;
  return true;
}

bool RingStops::End() {
  absl::MutexLock lock(&mutex_);
  if (Stopped()) return false;
  is_over_ = true;
  return true;
}

bool RingStops::Form(uint32_t number) {
  absl::MutexLock lock(&mutex_);
  if (number < answered_) return false;
  answered_ = number_ = number;
  return true;
}

}  // namespace strata::nccl
