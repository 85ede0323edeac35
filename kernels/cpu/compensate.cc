// Compiled once per instruction set (foreach_target); cpu.cc sees only the dispatcher at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/compensate.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "kernels/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One vector, or lane, of the formula; products and sums are rounded one by one.
template <bool kAdaptive, class D>
HWY_INLINE void CompensateAt(D d, const DelayCompensation& how, float scale,
                             const float* gradient_sum, const float* w, const float* w_base,
                             float* mean_square, float* out) {
  const auto g = hn::Mul(hn::Set(d, scale), hn::LoadU(d, gradient_sum));
  auto lambda = hn::Set(d, how.lambda);
  if constexpr (kAdaptive) {
    const auto square = hn::Add(hn::Mul(hn::Set(d, how.decay), hn::LoadU(d, mean_square)),
                                hn::Mul(hn::Set(d, 1.0f - how.decay), hn::Mul(g, g)));
    hn::StoreU(square, d, mean_square);
    lambda = hn::Div(lambda, hn::Sqrt(hn::Add(square, hn::Set(d, 1e-7f))));
  }
  const auto moved = hn::Sub(hn::LoadU(d, w), hn::LoadU(d, w_base));
  hn::StoreU(hn::Add(g, hn::Mul(hn::Mul(hn::Mul(lambda, g), g), moved)), d, out);
}

template <bool kAdaptive>
void CompensateAll(const DelayCompensation& how, float scale, const float* gradient_sum,
                   const float* w, const float* w_base, float* mean_square, float* out, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  const auto square_at = [&](size_t i) { return kAdaptive ? mean_square + i : nullptr; };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    CompensateAt<kAdaptive>(d, how, scale, gradient_sum + i, w + i, w_base + i, square_at(i),
                            out + i);
  }
  for (; i < n; ++i) {
    CompensateAt<kAdaptive>(one, how, scale, gradient_sum + i, w + i, w_base + i, square_at(i),
                            out + i);
  }
}

void Compensate(const DelayCompensation& how, float scale, const float* gradient_sum,
                const float* w, const float* w_base, float* mean_square, float* out, size_t n) {
  const auto all = how.adaptive ? CompensateAll<true> : CompensateAll<false>;
  all(how, scale, gradient_sum, w, w_base, mean_square, out, n);
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels::cpu {

HWY_EXPORT(Compensate);

void Compensate(const DelayCompensation& how, float scale, const float* gradient_sum,
                const float* w, const float* w_base, float* mean_square, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(Compensate)
  (how, scale, gradient_sum, w, w_base, mean_square, out, n);
}

}  // namespace strata::kernels::cpu
#endif  // HWY_ONCE
