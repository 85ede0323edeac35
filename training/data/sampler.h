#ifndef STRATA_TRAINING_DATA_SAMPLER_H_
#define STRATA_TRAINING_DATA_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/require.h"

namespace strata::worker {

// Decides which rank sees which sample when, by pure functions of the job, the same in every mode
// and for every spread of the ranks over nodes. In each epoch the samples are permuted by (seed,
// epoch); step k uses the next ranks * batch of them, rank r the r-th slice; a last partial step is
// dropped.

// Returns the permutation of `samples` indices in an epoch (Fisher-Yates). REQUIRES: samples <
// 2^32.
std::vector<uint32_t> EpochOrder(size_t samples, uint64_t seed, uint64_t epoch);

// Returns how many full steps an epoch has: 0 if the data is too small for one.
constexpr uint64_t StepsPerEpoch(uint64_t samples, uint64_t ranks, uint64_t batch) {
  return samples / (ranks * batch);
}

// Returns the samples of one rank in one step of the epoch. REQUIRES: step < StepsPerEpoch, rank <
// ranks.
inline absl::Span<const uint32_t> RankSlice(const std::vector<uint32_t>& order, uint64_t step,
                                            uint64_t rank, uint64_t ranks, uint64_t batch) {
  STRATA_REQUIRE(rank < ranks && step < StepsPerEpoch(order.size(), ranks, batch));
  return absl::MakeConstSpan(order).subspan((step * ranks + rank) * batch, batch);
}

}  // namespace strata::worker

#endif  // STRATA_TRAINING_DATA_SAMPLER_H_
