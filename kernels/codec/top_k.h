#ifndef STRATA_KERNELS_CODEC_TOP_K_H_
#define STRATA_KERNELS_CODEC_TOP_K_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace strata::kernels {

// Magnitudes are bits of floats without their sign, which order as the floats do; NaN and infinity
// are above all others.

// A threshold that about k of n elements reach, rather too low than too high, from a sample of the
// magnitudes; 1 (every element but zeros) where the sample is too small to tell.
uint32_t ThresholdFromSample(absl::Span<const uint32_t> sample, size_t n, size_t k);

// Where the k largest end: all magnitudes above `cut`, and `at_cut` of those that equal it.
struct Cut {
  uint32_t cut = 0;
  size_t at_cut = 0;
};

// Exact, by the digits of the magnitudes from the highest on; time grows with their number only.
// Reorders them. REQUIRES: 1 <= k <= magnitudes.size().
Cut CutOfLargest(absl::Span<uint32_t> magnitudes, size_t k);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CODEC_TOP_K_H_
