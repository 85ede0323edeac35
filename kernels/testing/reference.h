#ifndef STRATA_KERNELS_TESTING_REFERENCE_H_
#define STRATA_KERNELS_TESTING_REFERENCE_H_

#include <cstddef>

#include "absl/types/span.h"
#include "kernels/codec_kernels.h"
#include "kernels/kernels.h"

// The kernels as plain loops, directly from the formulas in proto/job.proto and the formats in
// common/wire/payload.h: tests compare devices with them bit for bit. Compiled with
// -ffp-contract=off.
namespace strata::kernels::reference {

const CodecKernels& Codecs();

// The fixed tree over the values inputs[0..k)[i].
void Sum(absl::Span<const float* const> inputs, float* out, size_t n);
void Optimize(const OptimizerParams& params, const OptimizerStep& step, const float* gradient_sum,
              const float* w_in, float* w_out, float* state0, float* state1, size_t n);
void Compensate(const DelayCompensation& how, float scale, const float* gradient_sum,
                const float* w, const float* w_base, float* mean_square, float* out, size_t n);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_TESTING_REFERENCE_H_
