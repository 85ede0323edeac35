#ifndef STRATA_WORKER_CLIENT_CONNECT_STEP_CLOCK_H_
#define STRATA_WORKER_CLIENT_CONNECT_STEP_CLOCK_H_

#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/client/straggler.h"

namespace strata::client {

// Splits a program's time by its calls: waits, measurements (the time between its last step and a
// report of measured values), and computation, which is the rest. The job may prolong computation
// (debug.delays).
//
// Threads: one.
class StepClock {
 public:
  // Delays only ranks of programs: the built-in trainer delays itself.
  StepClock(const proto::Job& job, uint32_t node, uint32_t rank)
      : straggler_(job, node, rank), delays_(job.has_program()) {}

  void Begin(absl::Time now) { began_ = computes_since_ = now; }
  void AddWait(absl::Duration waited) { waited_ += waited; }
  // A measurement was reported between two steps.
  void EndMeasurement(absl::Time now);
  // The step's computation is over. Returns how long the rank must sleep now.
  absl::Duration EndComputation(uint64_t step, absl::Time now) const;
  // The next step begins.
  void EndStep(absl::Time now);

  // Seconds since Begin, without measurements; 0 before it.
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
