#ifndef STRATA_KERNELS_CPU_DISPATCH_H_
#define STRATA_KERNELS_CPU_DISPATCH_H_

#include <cstddef>

#include "absl/types/span.h"
#include "kernels/kernels.h"

// The entries of the CPU's table; each selects this machine's widest instruction set at its first
// call. Contracts: Kernels.
namespace strata::kernels::cpu {

bool Sum(absl::Span<const float* const> inputs, float* out, size_t n);
bool SumFar(absl::Span<const float* const> inputs, float* out, size_t n);
bool AllFinite(const float* x, size_t n);
void Optimize(const OptimizerParams& params, const OptimizerStep& step, const float* gradient_sum,
              const float* w_in, float* w_out, float* state0, float* state1, size_t n);
void Compensate(const DelayCompensation& how, float scale, const float* gradient_sum,
                const float* w, const float* w_base, float* mean_square, float* out, size_t n);

// The kernels of the instruction set that is selected at the time of the call.
DenseCodec Float16Codec();
DenseCodec BFloat16Codec();
DenseCodec Int8Codec();
DenseCodec OneBitCodec();
SparseCodec Sparse();

// Returns the whole table; Cpu() keeps one.
Kernels MakeTable();

}  // namespace strata::kernels::cpu

#endif  // STRATA_KERNELS_CPU_DISPATCH_H_
