#ifndef STRATA_WORKER_AGGREGATOR_CHUNK_INTAKE_H_
#define STRATA_WORKER_AGGREGATOR_CHUNK_INTAKE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/arenas.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/core/exchange.h"

namespace strata::worker {

// The way of gradients from the ranks to the exchange: finds the chunks that all ranks of the node
// have published, has the arenas add them, and submits them once their sums can be taken.
//
// Threads: one.
class ChunkIntake {
 public:
  // All outlive it.
  ChunkIntake(const NodeMemory* memory, AggregatorCore* core, Arenas* arenas, Exchange* exchange)
      : memory_(*memory),
        core_(*core),
        arenas_(*arenas),
        exchange_(*exchange),
        published_(memory->offsets().local_ranks),
        ready_(memory->offsets().local_ranks),
        rates_(memory->offsets().local_ranks) {}

  // Whether anything has come of it: a chunk was submitted, or the arenas are done with what they
  // had to do. Errors: those of AggregatorCore, Arenas and
  // Exchange.
  absl::StatusOr<bool> Look();
  // Nothing is known any more of what was published at the last Look.
  void LookAgain() { published_seen_ = 0; }

 private:
  absl::Status LookAtPublished(bool* any);
  // Before the first sum of a step: its learning rate is that of all ranks.
  absl::Status CheckRates(uint64_t step);

  const NodeMemory& memory_;
  AggregatorCore& core_;
  Arenas& arenas_;
  Exchange& exchange_;
  uint64_t published_seen_ = 0;
  std::vector<uint64_t> published_, ready_;  // scratch, by local rank
  uint64_t rated_ = 0;                       // steps whose rates were looked at
  std::vector<float> rates_;                 // scratch, by local rank
  std::vector<ChunkId> summed_;              // scratch
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CHUNK_INTAKE_H_
