#include "cli/bench/gradient_values.h"

namespace strata::cli {
namespace {

// The part that is the same on every rank; the rank's number comes on top. Every other step takes
// back what the one before gave, so that weights stay near where they began.
inline float Shared(uint64_t step, size_t i) {
  return static_cast<float>((static_cast<uint32_t>(i) * 3 + static_cast<uint32_t>(step / 2)) & 63);
}

inline float Sign(uint64_t step) { return step % 2 == 0 ? 1.0f : -1.0f; }

inline float Sum(uint32_t ranks, uint64_t step, size_t i) {
  const auto of_ranks = static_cast<float>(ranks * (ranks - 1) / 2);
  return Sign(step) * (static_cast<float>(ranks) * Shared(step, i) + of_ranks);
}

}  // namespace

void FillGradient(uint32_t rank, uint64_t step, absl::Span<float> gradient) {
  const float sign = Sign(step), own = static_cast<float>(rank);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = sign * (Shared(step, i) + own);
}

bool IsGradientSum(uint32_t ranks, uint64_t step, absl::Span<const float> sum) {
  bool right = true;
  for (size_t i = 0; i < sum.size(); ++i) right &= sum[i] == Sum(ranks, step, i);
  return right;
}

void Descend(uint32_t ranks, uint64_t step, float scale, absl::Span<float> weights) {
  for (size_t i = 0; i < weights.size(); ++i) weights[i] -= scale * Sum(ranks, step, i);
}

}  // namespace strata::cli
