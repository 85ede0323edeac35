#include "server/coordinator/diagnosis/step_pace.h"

#include <algorithm>
#include <vector>

#include "server/coordinator/members/membership.h"

namespace strata::server {
namespace {

constexpr size_t kObservationsMax = 31;

}  // namespace

void StepPace::Observe(uint64_t first, absl::Time since, uint64_t steps, absl::Time now) {
  if (!steps_) {
    steps_ = steps;
    at_ = steps == first ? since : now;
    return;
  }
  if (steps <= *steps_) return;
  const absl::Duration each = (now - at_) / static_cast<int64_t>(steps - *steps_);
  if (*steps_ == first) first_step_ = now - at_;
  newest_.push_back(each);
  if (newest_.size() > kObservationsMax) newest_.pop_front();
  steps_ = steps;
  at_ = now;
}

void StepPace::Excuse(absl::Duration gap, absl::Time now) { at_ = Excused(at_, gap, now); }

std::optional<absl::Duration> StepPace::Median() const {
  if (newest_.empty()) return std::nullopt;
  std::vector<absl::Duration> sorted(newest_.begin(), newest_.end());
  const auto middle = sorted.begin() + sorted.size() / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace strata::server
