#ifndef STRATA_WORKER_CLIENT_CLIENT_VIEWS_H_
#define STRATA_WORKER_CLIENT_CLIENT_VIEWS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace strata::client {

// Who makes a step of the job.
struct StepRanks {
  bool makes_it = true;            // this rank does; else it has made its last one, and finishes
  uint32_t rank = 0;               // its number among those that make the step
  uint32_t ranks = 1;              // how many they are
  uint64_t rank_steps_before = 0;  // that all ranks together have made before, each rank's counted

  bool operator==(const StepRanks&) const = default;
};

// Where nodes may join and leave a job while it trains (ranks_max, ranks_min), each step has ranks
// of its own: Client::views(). A program that draws its samples by step and rank asks here which
// part of the step is its own, and whether it makes the step at all; so no sample is lost or used
// twice when the nodes change. Elsewhere every step is of all ranks.
//
// Threads: the client's.
class ClientViews {
 public:
  virtual ~ClientViews() = default;

  // Returns who makes the step, which from then on does not change. Blocks while a change of the
  // nodes is agreed upon that may come with it. BeginStep asks this itself; where the rank does not
  // make the step, it returns OutOfRange, and Finish is to be called. Errors: Unavailable,
  // Cancelled (OnWait), after which it may be called again. Once Finish has returned, of the step
  // that nobody makes: who is left, without nodes that died (on_loss: DROP), so that one of these
  // does what one rank does for all at the end. REQUIRES: Start has returned OK.
  virtual absl::StatusOr<StepRanks> At(uint64_t step) = 0;
  // The same for a step further on, whose data is to be read ahead: does not block. None: it is not
  // known yet.
  virtual absl::StatusOr<std::optional<StepRanks>> AtIfKnown(uint64_t step) = 0;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CLIENT_VIEWS_H_
