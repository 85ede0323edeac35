#ifndef STRATA_COMMON_JOB_EXCHANGE_SLICES_H_
#define STRATA_COMMON_JOB_EXCHANGE_SLICES_H_

#include <algorithm>
#include <cstdint>

#include "common/require.h"

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

}  // namespace strata

#endif  // STRATA_COMMON_JOB_EXCHANGE_SLICES_H_
