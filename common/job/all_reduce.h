#ifndef STRATA_COMMON_JOB_ALL_REDUCE_H_
#define STRATA_COMMON_JOB_ALL_REDUCE_H_

#include <algorithm>
#include <cstdint>

#include "common/require.h"
#include "proto/job.pb.h"

namespace strata {

// A chunk's slices are its equal parts, one per node in an all-reduce: whole runs of
// kSliceAlignment elements but for the last one that is not empty. Which element lies in which
// slice decides the order of its addition (job.proto, Order), so that both sides of that promise
// ask here.
inline constexpr uint32_t kSliceAlignment = 16;

// Returns the first element of slice `slice` of a chunk of `elements`; the one of slice `slices` is
// `elements`.
// REQUIRES: slice <= slices, slices >= 1.
constexpr uint32_t SliceStart(uint32_t elements, uint32_t slices, uint32_t slice) {
  STRATA_REQUIRE(slices >= 1 && slice <= slices);
  const uint64_t runs = (uint64_t{elements} + kSliceAlignment - 1) / kSliceAlignment;
  return static_cast<uint32_t>(
      std::min<uint64_t>(elements, runs * slice / slices * kSliceAlignment));
}

// Links between the nodes of an all-reduce.
struct LinkCost {
  double latency_s = 0;    // that a message takes besides its bytes
  double bytes_per_s = 1;  // each way
};

// The work of one all-reduce step.
struct AllReduceWork {
  uint32_t nodes = 2;
  uint64_t bytes = 0;   // of the arena
  uint32_t chunks = 1;  // that it is cut into
  uint32_t window = 2;  // chunks under way at a time
};

// The least time of a step: Thakur et al. 2005, for the node that has most to do, with the
// latencies of chunks that are under way together counted once. `algorithm`: RING or
// HALVING_DOUBLING.
double AllReduceSeconds(proto::AllReduce::Algorithm algorithm, const AllReduceWork& work,
                        const LinkCost& link);

// The faster of the two; RING where they are equal.
proto::AllReduce::Algorithm FasterAllReduce(const AllReduceWork& work, const LinkCost& link);

// The chunk of an all-reduce where the job does not say, in elements: clamp(M / 64, 64 KiB, 512
// KiB) and at least 16 KiB a node, but no more than M. Larger ones leave links idle: few messages
// of them are under way at a time.
uint32_t DefaultAllReduceChunkElements(uint64_t elements, uint32_t nodes);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_ALL_REDUCE_H_
