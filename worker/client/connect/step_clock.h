#ifndef STRATA_WORKER_CLIENT_CONNECT_STEP_CLOCK_H_
#define STRATA_WORKER_CLIENT_CONNECT_STEP_CLOCK_H_

#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/client/straggler.h"

namespace strata::client {

// What a program's time goes to, as its calls tell: waits, measurements (what it did since its last
// step when it reports what it measured), and computation, which is all else. The job may have the
// last take longer (debug.delays).
//
// Threads: one.
class StepClock {
 public:
  // Of the rank of a program, or of one that delays itself.
  StepClock(const proto::Job& job, uint32_t node, uint32_t rank)
      : straggler_(job, node, rank), delays_(job.has_program()) {}

  void Begin(absl::Time now) { began_ = computes_since_ = now; }
  void AddWait(absl::Duration waited) { waited_ += waited; }
  // A measurement was reported between two steps.
  void EndMeasurement(absl::Time now);
  // The step's computation is over. Returns how long the rank is to stand still now.
  absl::Duration EndComputation(uint64_t step, absl::Time now) const;
  // What follows is the next step's.
  void EndStep(absl::Time now);

  // Seconds from Begin on, without those of measurements; 0 before it.
  double TrainedSeconds(absl::Time now) const;

 private:
  const Straggler straggler_;
  const bool delays_;
  absl::Time began_ = absl::InfinitePast(), computes_since_;
  absl::Duration waited_;  // since then
  absl::Duration measured_;
};

// Adds the time from construction to destruction to `total`, and to a clock as a wait.
class Stopwatch {
 public:
  Stopwatch(absl::Duration* total, StepClock* clock)
      : total_(total), clock_(clock), begin_(absl::Now()) {}
  ~Stopwatch() {
    const absl::Duration waited = absl::Now() - begin_;
    *total_ += waited;
    clock_->AddWait(waited);
  }

 private:
  absl::Duration* total_;
  StepClock* clock_;
  absl::Time begin_;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_STEP_CLOCK_H_
