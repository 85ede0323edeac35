#ifndef STRATA_WORKER_AGGREGATOR_CORE_STEP_FACTS_H_
#define STRATA_WORKER_AGGREGATOR_CORE_STEP_FACTS_H_

#include <atomic>
#include <cstdint>

#include "worker/contract/node_memory.h"
#include "worker/exchange/core/exchange.h"

namespace strata::worker {

// Returns what the node's sum of a step counts for. Ranks that say rates say the same
// (AggregatorCore::OnRates). REQUIRES: every rank has published something of the step, which makes
// what it has said before visible.
inline StepFacts FactsOfStep(const NodeMemory& memory, uint64_t step) {
  const size_t slot = step % kSampleSlots;
  StepFacts facts = {.rate = memory.rank(0).rates[slot].load(std::memory_order_relaxed)};
  for (uint32_t r = 0; r < memory.offsets().local_ranks; ++r) {
    facts.samples += memory.rank(r).samples[slot].load(std::memory_order_relaxed);
  }
  return facts;
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_STEP_FACTS_H_
