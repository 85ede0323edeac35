#include "worker/client/connect/step_clock.h"

#include <algorithm>

namespace strata::client {

void StepClock::EndMeasurement(absl::Time now) {
  measured_ += std::max(now - computes_since_ - waited_, absl::ZeroDuration());
  EndStep(now);
}

absl::Duration StepClock::EndComputation(uint64_t step, absl::Time now) const {
  if (!delays_) return absl::ZeroDuration();
  return straggler_.Delay(step, std::max(now - computes_since_ - waited_, absl::ZeroDuration()));
}

void StepClock::EndStep(absl::Time now) {
  computes_since_ = now;
  waited_ = absl::ZeroDuration();
}

double StepClock::TrainedSeconds(absl::Time now) const {
  if (began_ == absl::InfinitePast()) return 0;
  return absl::ToDoubleSeconds(now - began_ - measured_);
}

}  // namespace strata::client
