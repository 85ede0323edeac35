#ifndef STRATA_COMMON_JOB_ALL_REDUCE_H_
#define STRATA_COMMON_JOB_ALL_REDUCE_H_

#include <algorithm>
#include <cstdint>

#include "common/require.h"
#include "proto/job.pb.h"

namespace strata {

// A chunk's slices are its equal parts, one per node in an all-reduce: multiples of kSliceAlignment
// elements except for the last slice that is not empty. The slice of an element decides its order
// of addition (job.proto, Order), so all code that depends on that order uses this.
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
  double latency_s = 0;    // per message, besides its bytes
  double bytes_per_s = 1;  // in each direction
};

// The work of one all-reduce step.
struct AllReduceWork {
  uint32_t nodes = 2;
  uint64_t bytes = 0;   // size of the arena
  uint32_t chunks = 1;  // number of its chunks
  uint32_t window = 2;  // chunks in flight at a time
};

// Returns the least time of a step: Thakur et al. 2005, for the busiest node, with the latencies of
// chunks that are in flight together counted once. `algorithm`: RING or HALVING_DOUBLING.
double AllReduceSeconds(proto::AllReduce::Algorithm algorithm, const AllReduceWork& work,
                        const LinkCost& link);

// The faster of the two; RING where they are equal.
proto::AllReduce::Algorithm FasterAllReduce(const AllReduceWork& work, const LinkCost& link);

// Returns the default chunk of an all-reduce, in elements: clamp(M / 64, 64 KiB, 512 KiB) and at
// least 16 KiB a node, but at most M. Larger chunks leave links idle, because few messages are in
// flight at a time.
uint32_t DefaultAllReduceChunkElements(uint64_t elements, uint32_t nodes);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_ALL_REDUCE_H_
