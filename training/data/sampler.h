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
//
// So the batches of all ranks in all steps count on: rank r of step k has batch k * ranks + r of
// the job. Where steps have other ranks, each takes the next ones still. An epoch has the same
// number of batches throughout, and a step may have the last ones of an epoch and the first ones of
// the next.

// Returns the permutation of `samples` indices in an epoch (Fisher-Yates). REQUIRES: samples <
// 2^32.
std::vector<uint32_t> EpochOrder(size_t samples, uint64_t seed, uint64_t epoch);

// Returns how many full steps an epoch has: 0 if the data is too small for one.
constexpr uint64_t StepsPerEpoch(uint64_t samples, uint64_t ranks, uint64_t batch) {
  return samples / (ranks * batch);
}

// Where a batch of the job stands, by its number.
struct BatchPlace {
  uint64_t epoch = 0;
  uint64_t index = 0;  // in the epoch
};
constexpr BatchPlace PlaceOfBatch(uint64_t number, uint64_t batches_per_epoch) {
  return {number / batches_per_epoch, number % batches_per_epoch};
}

// Returns the samples of a batch of the epoch. REQUIRES: the epoch has so many.
inline absl::Span<const uint32_t> BatchSlice(const std::vector<uint32_t>& order, uint64_t index,
                                             uint64_t batch) {
  STRATA_REQUIRE(index < order.size() / batch);
  return absl::MakeConstSpan(order).subspan(index * batch, batch);
}

// Returns the samples of one rank in one step of the epoch, all of whose steps have as many ranks.
// REQUIRES: step < StepsPerEpoch, rank < ranks.
inline absl::Span<const uint32_t> RankSlice(const std::vector<uint32_t>& order, uint64_t step,
                                            uint64_t rank, uint64_t ranks, uint64_t batch) {
  STRATA_REQUIRE(rank < ranks && step < StepsPerEpoch(order.size(), ranks, batch));
  return BatchSlice(order, step * ranks + rank, batch);
}

}  // namespace strata::worker

#endif  // STRATA_TRAINING_DATA_SAMPLER_H_
