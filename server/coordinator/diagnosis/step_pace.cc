#include "server/coordinator/diagnosis/step_pace.h"

#include <algorithm>
#include <vector>

#include "server/coordinator/members/membership.h"

namespace strata::server {
namespace {

constexpr size_t kObservationsMax = 31;
// Who first looks within so long of the beginning has as good as seen the first step.
constexpr absl::Duration kSoon = absl::Seconds(10);

}  // namespace

void StepPace::Observe(uint64_t first, absl::Time since, uint64_t steps, absl::Time now) {
  if (!steps_) {
    steps_ = first;
    at_ = since;
    sees_first_step_ = steps == first || now - since <= kSoon;
  }
  if (steps <= *steps_) return;
  const uint64_t count = steps - *steps_;
  newest_.push_back({.each = (now - at_) / static_cast<int64_t>(count), .count = count});
  if (*steps_ == first && sees_first_step_) first_step_ = now - at_;
  if (newest_.size() > kObservationsMax) newest_.pop_front();
  steps_ = steps;
  at_ = now;
}

void StepPace::Excuse(absl::Duration gap, absl::Time now) { at_ = Excused(at_, gap, now); }

std::optional<absl::Duration> StepPace::Median() const {
  if (newest_.empty()) return std::nullopt;
  std::vector<Made> sorted(newest_.begin(), newest_.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Made& a, const Made& b) { return a.each < b.each; });
  uint64_t all = 0, passed = 0;
  for (const Made& made : sorted) all += made.count;
  for (const Made& made : sorted) {
    passed += made.count;
    if (passed > all / 2) return made.each;
  }
  return sorted.back().each;
}

}  // namespace strata::server
