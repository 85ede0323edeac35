#ifndef STRATA_CLI_BENCH_GRADIENT_VALUES_H_
#define STRATA_CLI_BENCH_GRADIENT_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace strata::cli {

// Fills in the gradient of rank `rank` in step `step`: whole numbers that differ by step and rank,
// small enough for an exact sum in any order of addition.
void FillGradient(uint32_t rank, uint64_t step, absl::Span<float> gradient);

// Returns whether these are the sums over `ranks` ranks.
bool IsGradientSum(uint32_t ranks, uint64_t step, absl::Span<const float> sum);

// Applies w -= scale * sum of `step` over `ranks` ranks to every element. The product is rounded
// before the difference, as in kernels/.
void Descend(uint32_t ranks, uint64_t step, float scale, absl::Span<float> weights);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_GRADIENT_VALUES_H_
