#ifndef STRATA_WORKER_AGGREGATOR_CORE_ARENAS_H_
#define STRATA_WORKER_AGGREGATOR_CORE_ARENAS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "worker/contract/node_memory.h"
#include "worker/contract/rank_protocol.pb.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// Returns the facts of a step for the node's sum. Ranks that give rates give the same
// (AggregatorCore::OnRates). REQUIRES: every rank has published part of the step, which makes its
// earlier writes visible.
inline StepFacts FactsOfStep(const NodeMemory& memory, uint64_t step) {
  const size_t slot = step % kSampleSlots;
  StepFacts facts = {.rate = memory.rank(0).rates[slot].load(std::memory_order_relaxed)};
  for (uint32_t r = 0; r < memory.offsets().local_ranks; ++r) {
    facts.samples += memory.rank(r).samples[slot].load(std::memory_order_relaxed);
  }
  return facts;
}

// The node's arenas as its aggregator drives them; the exchange sees the ExchangeNode.
//
// Threads: one.
class Arenas : public ExchangeNode {
 public:
  // First and final weights belong to no step, so the number of ranks is ignored.
  absl::Status TakeFirstWeights(ChunkId chunk, const Bytes& weights) final {
    return TakeFinalWeights(chunk, weights);
  }

  // All ranks have published the chunk for `clock`. Returns true if it may be submitted to the
  // exchange now; false: once Poll names it. Errors: those of Poll.
  virtual absl::StatusOr<bool> BeginSum(ChunkId chunk, uint64_t clock) = 0;
  // Makes progress on asynchronous work: shows ranks the landed weights, and appends chunks that
  // may be submitted now. Errors: Internal with the device and the cause.
  virtual absl::Status Poll(std::vector<ChunkId>* summed) = 0;
  // Returns whether Poll has something to report, now or later.
  virtual bool busy() const = 0;

  // Every chunk's first weights are confirmed: the first step (AggregatorCore::clock) may read
  // them.
  virtual void LandFirstWeights() = 0;
  // Adds where a rank finds its part of the arenas, unless that is in the memory it already has.
  // Errors: those of device::Device::Share.
  virtual absl::Status Describe(uint32_t local_rank, proto::Started* started) = 0;

  // Host bytes in pooled buffers, including idle ones.
  virtual size_t buffer_bytes() const = 0;
  // Bytes in the memory of devices.
  virtual size_t device_bytes() const { return 0; }
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_ARENAS_H_
