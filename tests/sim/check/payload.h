#ifndef STRATA_TESTS_SIM_CHECK_PAYLOAD_H_
#define STRATA_TESTS_SIM_CHECK_PAYLOAD_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "tests/sim/check/scenario.h"

namespace strata::sim {

// What a job's ranks compute. Gradients do not depend on the weights, so the sums of a job are the
// same whatever the network does. They do depend on everything that a mix-up could exchange.
//
// The ledger: in a job of SGD with rate 1, element rank * T + clock of every chunk belongs to that
// rank's gradient of that clock. Applying that gradient once adds exactly 1 to the weight, which
// begins at 0.
class Payload {
 public:
  explicit Payload(const JobPlan& plan) : plan_(plan) {}

  // Number of ledger elements at the start of the chunk; 0 if it has none.
  uint32_t LedgerElements(uint32_t chunk_elements) const;
  // Samples of one rank in every step. With a fixed set of nodes their sum is a power of two.
  uint32_t SamplesOf(uint32_t rank) const;

  std::vector<float> FirstWeights(ChunkId chunk, uint32_t elements) const;
  // Computes the gradient of global rank `rank`. `node_samples`: samples of all ranks of its node.
  // `variant`: other bits, but the same ledger. `ranks`: number of ranks that take part in the
  // step, if nodes come and go.
  void Gradient(uint32_t rank, ChunkId chunk, uint64_t clock, uint32_t node_samples,
                uint32_t variant, uint32_t elements, float* out, uint32_t ranks = 0) const;

 private:
  const JobPlan plan_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_PAYLOAD_H_
