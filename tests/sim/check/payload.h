#ifndef STRATA_TESTS_SIM_CHECK_PAYLOAD_H_
#define STRATA_TESTS_SIM_CHECK_PAYLOAD_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "tests/sim/check/scenario.h"

namespace strata::sim {

// What a job's ranks compute. Gradients do not depend on the weights, so that the sums of a job are
// the same whatever the network does; they do depend on everything that a mix-up could exchange.
//
// The ledger: in a job of SGD with rate 1, element rank * T + clock of every chunk belongs to that
// rank's gradient of that clock, and its value is such that applying it once adds exactly 1 to the
// weight, which begins with 0.
class Payload {
 public:
  explicit Payload(const JobPlan& plan) : plan_(plan) {}

  // Elements of the chunk that are ledger, from its start; 0 where it has none.
  uint32_t LedgerElements(uint32_t chunk_elements) const;
  // Samples of one rank in every step; of all together: a power of two, where nodes stay.
  uint32_t SamplesOf(uint32_t rank) const;

  std::vector<float> FirstWeights(ChunkId chunk, uint32_t elements) const;
  // The gradient of global rank `rank`. `node_samples`: of all ranks of its node; `variant`: other
  // bits, but the same ledger; `ranks`: that make the step, where nodes come and go.
  void Gradient(uint32_t rank, ChunkId chunk, uint64_t clock, uint32_t node_samples,
                uint32_t variant, uint32_t elements, float* out, uint32_t ranks = 0) const;

 private:
  const JobPlan plan_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_PAYLOAD_H_
