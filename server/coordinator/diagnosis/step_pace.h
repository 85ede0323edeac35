#ifndef STRATA_SERVER_COORDINATOR_DIAGNOSIS_STEP_PACE_H_
#define STRATA_SERVER_COORDINATOR_DIAGNOSIS_STEP_PACE_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace strata::server {

// How long the steps of a job take, by when its slowest rank was seen to have made how many. Pure:
// time comes in with the calls.
class StepPace {
 public:
  // The job trains since `since` and began with the step `first`; its slowest rank has made
  // `steps`. Steps that were made again change nothing.
  void Observe(uint64_t first, absl::Time since, uint64_t steps, absl::Time now);
  // Does what Membership::Excuse does.
  void Excuse(absl::Duration gap, absl::Time now);

  // Returns what a step took at the median of those seen last, each seen between two looks as long
  // as the others; of an even number the longer one. Absent: none has been made.
  std::optional<absl::Duration> Median() const;
  // Returns what the job's first step took, with all that comes before it in its processes. Absent:
  // it was not seen, as after a restart of the coordinator.
  std::optional<absl::Duration> first_step() const { return first_step_; }

 private:
  std::optional<uint64_t> steps_;  // the most that were seen
  absl::Time at_;                  // when they were
  bool sees_first_step_ = false;
  std::optional<absl::Duration> first_step_;
  // Steps that were made between two looks.
  struct Made {
    absl::Duration each;
    uint64_t count = 0;
  };
  std::deque<Made> newest_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_DIAGNOSIS_STEP_PACE_H_
