#ifndef STRATA_WORKER_CLIENT_C_VECTORS_H_
#define STRATA_WORKER_CLIENT_C_VECTORS_H_

#include <cstddef>
#include <cstdint>

// Numbers of other types to fp32 and back in one pass over memory, by the instruction set of this
// machine; bit for bit what a plain loop gives, but for which NaN a NaN becomes. What is longer
// than kernels::kFarBytes is written past the caches, and is there for other threads and processes
// as any store before is. No alignment is needed beyond that of the types.
namespace strata::client::vectors {

// Write `values` times `scale`. False: one of the products is not finite as fp32.
bool FromFloats(const float* values, float scale, float* to, size_t n);
bool FromDoubles(const double* values, double scale, float* to, size_t n);
bool FromHalves(const uint16_t* values, float scale, float* to, size_t n);
bool FromBrains(const uint16_t* values, float scale, float* to, size_t n);

// Round to nearest, ties to even; what is too large becomes infinite.
void ToDoubles(const float* values, double* to, size_t n);
void ToHalves(const float* values, uint16_t* to, size_t n);
void ToBrains(const float* values, uint16_t* to, size_t n);

}  // namespace strata::client::vectors

#endif  // STRATA_WORKER_CLIENT_C_VECTORS_H_
