#ifndef STRATA_KERNELS_KERNELS_H_
#define STRATA_KERNELS_KERNELS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "common/job/optimizer.h"
#include "kernels/codec_kernels.h"

namespace strata::kernels {

// Parameters that change from update to update, and from segment to segment of one update.
struct OptimizerStep {
  float lr = 0.0f;              // schedule's rate * the segment's lr multiplier
  float decay = 0.0f;           // weight_decay * the segment's decay multiplier
  float gradient_scale = 1.0f;  // g = gradient_scale * gradient_sum
  uint64_t update = 1;          // from 1; Adam's t
  float sgd_share = 1.0f;       // RMSprop warm-up's a
  float rms_share = 0.0f;       // and b
  bool far = false;             // writes w_out like sum_far
};

// Weights of this size are in no core's cache, and not worth caching.
inline constexpr size_t kFarBytes = size_t{8} << 20;

// The functions of one device. Every function is elementwise or in a fixed order, so results do not
// depend on how a range is split; buffers need only 4-byte alignment; none overlap unless said.
// Products and sums are rounded separately (no fused multiply-add), so that a plain scalar loop
// gives the same bits.
struct Kernels {
  std::string name;

  // out[i] = tree sum over inputs[0..k)[i], k >= 1: the balanced tree of SumTreeSplit over the
  // inputs' positions. `out` may be one of the inputs. One pass over memory. Returns true if every
  // element of `out` is finite: then all of the inputs are. (Finite inputs may overflow.)
  bool (*sum)(absl::Span<const float* const> inputs, float* out, size_t n);

  // Gives the same bits with non-temporal stores, if the device supports them: for an `out` too
  // long to be still cached later. `out` is not one of the inputs. Other threads see it like any
  // store.
  bool (*sum_far)(absl::Span<const float* const> inputs, float* out, size_t n);

  // One update of n weights: reads w_in, writes w_out (may be the same buffer), updates the state
  // vectors in place (state0, state1: null according to StateVectors).
  void (*optimize)(const OptimizerParams& params, const OptimizerStep& step,
                   const float* gradient_sum, const float* w_in, float* w_out, float* state0,
                   float* state1, size_t n);

  // out[i] = g + lambda g g (w[i] - w_base[i]), g = scale * gradient_sum[i]. With `adaptive` first
  // m = mean_square[i] = decay * mean_square[i] + (1 - decay) * (g * g), and lambda / sqrt(m +
  // 1e-7) instead of lambda; otherwise mean_square is not used. Products associate to the left.
  void (*compensate)(const DelayCompensation& how, float scale, const float* gradient_sum,
                     const float* w, const float* w_base, float* mean_square, float* out, size_t n);

  // Returns whether no element is NaN or infinite.
  bool (*all_finite)(const float* x, size_t n);

  CodecKernels codec;
};

// Returns how many of `count` >= 2 leaves go left in the fixed tree of addition: the largest power
// of two below count. So the tree over nodes that hold equal aligned power-of-two blocks of ranks
// is the upper part of the tree over ranks.
inline size_t SumTreeSplit(size_t count) { return std::bit_floor(count - 1); }

// The CPU's kernels (SIMD chosen at run time); always available.
const Kernels& Cpu();

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_KERNELS_H_
