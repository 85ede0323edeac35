#ifndef STRATA_NUMERICS_TOP_K_H_
#define STRATA_NUMERICS_TOP_K_H_

#include <cstddef>
#include <cstdint>

#include "kernels/codec_kernels.h"

namespace strata::numerics {

// Magnitudes are bits of floats without their sign, which order as the floats do; NaN and infinity
// are above all others. Inputs may have signs.

// Returns how many elements of n are sent at a density: at least one, and at most as many as a
// payload may hold.
size_t LargestCount(double density, size_t n);

// The boundary of the k largest magnitudes: all above `cut`, and `at_cut` of the `equal` ones at
// it.
struct Cut {
  uint32_t cut = 0;
  size_t at_cut = 0, equal = 0;
};

// Exact, by bisection. At least k of the magnitudes, or all of them, are `least` >= 1 or more.
// `scratch` has room for n + kCandidateSlack. REQUIRES: 1 <= k <= n.
Cut CutOfLargest(const kernels::SparseCodec& sparse, const uint32_t* bits, size_t n, size_t k,
                 uint32_t least, uint32_t* scratch);

// Returns a threshold that about k of n elements reach, rather too low than too high, from a sample
// of `sampled`; 1 (every non-zero element) if the sample is too small.
uint32_t ThresholdFromSample(const kernels::SparseCodec& sparse, const uint32_t* sample,
                             size_t sampled, size_t n, size_t k, uint32_t* scratch);

// Moves the k largest of n candidates, of equal ones those of lowest index, to the front, keeping
// their order. All magnitudes are at least `least`. REQUIRES: 1 <= k <= n.
void KeepLargest(const kernels::SparseCodec& sparse, const kernels::Candidates& candidates,
                 size_t n, size_t k, uint32_t least, uint32_t* scratch);

}  // namespace strata::numerics

#endif  // STRATA_NUMERICS_TOP_K_H_
