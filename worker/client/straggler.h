#ifndef STRATA_WORKER_CLIENT_STRAGGLER_H_
#define STRATA_WORKER_CLIENT_STRAGGLER_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "proto/job.pb.h"

namespace strata {

// The artificial delay of a rank in each step (debug.delays). A pure function of rank, step and the
// step's computation time, so that every run of a job has the same delays.
class Straggler {
 public:
  Straggler(const proto::Job& job, uint32_t node, uint32_t rank);

  // `computed`: processor time of the step's computation. Delays of one node add up.
  absl::Duration Delay(uint64_t step, absl::Duration computed) const;

 private:
  std::vector<proto::Delay> delays_;  // of the node
  const uint64_t key_;
};

// Returns the processor time of the calling thread so far.
absl::Duration ThreadTime();

}  // namespace strata

#endif  // STRATA_WORKER_CLIENT_STRAGGLER_H_
