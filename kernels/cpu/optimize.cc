// Compiled once per instruction set (foreach_target); cpu.cc sees only the dispatcher at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/update_factors.h"

HWY_BEFORE_NAMESPACE();
#include "kernels/cpu/far.inc"
namespace strata::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Mul and Add are kept separate throughout: a fused multiply-add would round once where a plain
// loop rounds twice.

using Factors = UpdateFactors;

// scale * gradient_sum + decay * w
template <class D, class V>
HWY_INLINE V DecayedGradient(D d, const Factors& f, V gradient_sum, V w) {
  return hn::Add(hn::Mul(hn::Set(d, f.scale), gradient_sum), hn::Mul(hn::Set(d, f.decay), w));
}

template <bool kFar, class D>
HWY_INLINE void SgdAt(D d, const Factors& f, const float* g, const float* w_in, float* w_out,
                      float*, float*) {
  const auto w = hn::LoadU(d, w_in);
  const auto direction = DecayedGradient(d, f, hn::LoadU(d, g), w);
  Store<kFar>(hn::Sub(w, hn::Mul(hn::Set(d, f.lr), direction)), d, w_out);
}

template <bool kFar, class D>
HWY_INLINE void MomentumAt(D d, const Factors& f, const float* g, const float* w_in, float* w_out,
                           float* state0, float*) {
  const auto w = hn::LoadU(d, w_in);
  const auto direction = DecayedGradient(d, f, hn::LoadU(d, g), w);
  const auto v = hn::Add(hn::Mul(hn::Set(d, f.momentum), hn::LoadU(d, state0)), direction);
  hn::StoreU(v, d, state0);
  Store<kFar>(hn::Sub(w, hn::Mul(hn::Set(d, f.lr), v)), d, w_out);
}

template <bool kFar, class D>
HWY_INLINE void NesterovAt(D d, const Factors& f, const float* g, const float* w_in, float* w_out,
                           float* state0, float*) {
  const auto w = hn::LoadU(d, w_in);
  const auto momentum = hn::Set(d, f.momentum);
  const auto direction = DecayedGradient(d, f, hn::LoadU(d, g), w);
  const auto v = hn::Add(hn::Mul(momentum, hn::LoadU(d, state0)), direction);
  hn::StoreU(v, d, state0);
  const auto ahead = hn::Add(direction, hn::Mul(momentum, v));
  Store<kFar>(hn::Sub(w, hn::Mul(hn::Set(d, f.lr), ahead)), d, w_out);
}

// Updates both moments and returns the corrected m / (sqrt(v) + epsilon).
template <class D, class V>
HWY_INLINE V AdamRatio(D d, const Factors& f, V g, float* state0, float* state1) {
  const auto m = hn::Add(hn::Mul(hn::Set(d, f.beta1), hn::LoadU(d, state0)),
                         hn::Mul(hn::Set(d, f.one_minus_beta1), g));
  const auto v = hn::Add(hn::Mul(hn::Set(d, f.beta2), hn::LoadU(d, state1)),
                         hn::Mul(hn::Set(d, f.one_minus_beta2), hn::Mul(g, g)));
  hn::StoreU(m, d, state0);
  hn::StoreU(v, d, state1);
  const auto root = hn::Sqrt(hn::Mul(v, hn::Set(d, f.correct1)));
  return hn::Div(hn::Mul(m, hn::Set(d, f.correct0)), hn::Add(root, hn::Set(d, f.epsilon)));
}

template <bool kFar, class D>
HWY_INLINE void AdamAt(D d, const Factors& f, const float* g, const float* w_in, float* w_out,
                       float* state0, float* state1) {
  const auto w = hn::LoadU(d, w_in);
  const auto direction = DecayedGradient(d, f, hn::LoadU(d, g), w);
  const auto ratio = AdamRatio(d, f, direction, state0, state1);
  Store<kFar>(hn::Sub(w, hn::Mul(hn::Set(d, f.lr), ratio)), d, w_out);
}

template <bool kFar, class D>
HWY_INLINE void AdamWAt(D d, const Factors& f, const float* g, const float* w_in, float* w_out,
                        float* state0, float* state1) {
  const auto w = hn::LoadU(d, w_in);
  const auto gradient = hn::Mul(hn::Set(d, f.scale), hn::LoadU(d, g));
  const auto ratio = AdamRatio(d, f, gradient, state0, state1);
  const auto direction = hn::Add(ratio, hn::Mul(hn::Set(d, f.decay), w));
  Store<kFar>(hn::Sub(w, hn::Mul(hn::Set(d, f.lr), direction)), d, w_out);
}

template <bool kFar, class D>
HWY_INLINE void RmspropWarmupAt(D d, const Factors& f, const float* g, const float* w_in,
                                float* w_out, float* state0, float* state1) {
  const auto w = hn::LoadU(d, w_in);
  const auto gradient = DecayedGradient(d, f, hn::LoadU(d, g), w);
  const auto m = hn::Add(hn::Mul(hn::Set(d, f.beta2), hn::LoadU(d, state0)),
                         hn::Mul(hn::Set(d, f.one_minus_beta2), hn::Mul(gradient, gradient)));
  const auto root = hn::Add(hn::Sqrt(m), hn::Set(d, f.epsilon));
  const auto share = hn::Add(hn::Set(d, f.sgd_share), hn::Div(hn::Set(d, f.rms_share), root));
  const auto delta =
      hn::Sub(hn::Mul(hn::Set(d, f.momentum), hn::LoadU(d, state1)), hn::Mul(share, gradient));
  hn::StoreU(m, d, state0);
  hn::StoreU(delta, d, state1);
  Store<kFar>(hn::Add(w, hn::Mul(hn::Set(d, f.lr), delta)), d, w_out);
}

template <bool kFar, class D>
HWY_INLINE void AdagradAt(D d, const Factors& f, const float* g, const float* w_in, float* w_out,
                          float* state0, float*) {
  const auto w = hn::LoadU(d, w_in);
  const auto direction = DecayedGradient(d, f, hn::LoadU(d, g), w);
  const auto squares = hn::Add(hn::LoadU(d, state0), hn::Mul(direction, direction));
  hn::StoreU(squares, d, state0);
  const auto root =
      hn::Add(hn::Sqrt(hn::Add(squares, hn::Set(d, f.initial))), hn::Set(d, f.epsilon));
  const auto ratio = hn::Div(direction, root);
  Store<kFar>(hn::Sub(w, hn::Mul(hn::Set(d, f.lr), ratio)), d, w_out);
}

template <bool kFar, class D>
HWY_INLINE void FtrlAt(D d, const Factors& f, const float* g, const float* w_in, float* w_out,
                       float* state0, float* state1) {
  const auto w = hn::LoadU(d, w_in);
  const auto lr = hn::Set(d, f.lr), l1 = hn::Set(d, f.l1);
  const auto direction = DecayedGradient(d, f, hn::LoadU(d, g), w);
  const auto before = hn::LoadU(d, state1);
  const auto squares = hn::Add(before, hn::Mul(direction, direction));
  const auto root_before = hn::Sqrt(before), root = hn::Sqrt(squares);
  const auto slope_of = [&](auto of_squares) HWY_ATTR {
    return hn::Add(hn::Div(hn::Add(hn::Set(d, f.beta), of_squares), lr), hn::Set(d, f.l2));
  };
  const auto slope = slope_of(root);
  const auto of_weight = hn::Sub(hn::Neg(hn::Mul(w, slope_of(root_before))), hn::CopySign(l1, w));
  const auto is_zero = hn::Eq(w, hn::Zero(d));
  const auto sigma = hn::Div(hn::Sub(root, root_before), lr);
  const auto z = hn::Add(hn::IfThenElse(is_zero, hn::LoadU(d, state0), of_weight),
                         hn::Sub(direction, hn::Mul(sigma, w)));
  const auto beyond = hn::Sub(z, hn::CopySign(l1, z));
  const auto next = hn::Neg(hn::Div(beyond, slope));
  hn::StoreU(z, d, state0);
  hn::StoreU(squares, d, state1);
  Store<kFar>(hn::IfThenZeroElse(hn::Le(hn::Abs(z), l1), next), d, w_out);
}

// FTRL at a rate by which it cannot divide.
template <bool kFar, class D>
HWY_INLINE void StayAt(D d, const Factors&, const float*, const float* w_in, float* w_out, float*,
                       float*) {
  Store<kFar>(hn::LoadU(d, w_in), d, w_out);
}

template <bool kFar, class D>
HWY_INLINE void MeanAt(D d, const Factors& f, const float* g, const float*, float* w_out, float*,
                       float*) {
  Store<kFar>(hn::Mul(hn::Set(d, f.scale), hn::LoadU(d, g)), d, w_out);
}

// Runs the rule over [0, n): single elements until w_out is aligned, if requested, then whole
// vectors, then single elements.
#define STRATA_FOR_EACH(rule, kFar)                                                         \
  do {                                                                                      \
    const hn::ScalableTag<float> d;                                                         \
    const hn::CappedTag<float, 1> one;                                                      \
    const size_t lanes = hn::Lanes(d);                                                      \
    size_t i = 0;                                                                           \
    const auto run_lanes = [&](size_t end) HWY_ATTR {                                       \
      for (; i < end; ++i) {                                                                \
        rule<false>(one, f, gradient_sum + i, w_in + i, w_out + i, state0 + i, state1 + i); \
      }                                                                                     \
    };                                                                                      \
    if (kFar) run_lanes(std::min(n, UnalignedHead(w_out, lanes)));                          \
    for (; i + lanes <= n; i += lanes) {                                                    \
      rule<kFar>(d, f, gradient_sum + i, w_in + i, w_out + i, state0 + i, state1 + i);      \
    }                                                                                       \
    run_lanes(n);                                                                           \
    if (kFar) hwy::FlushStream();                                                           \
  } while (false)

template <bool kFar>
void OptimizeTo(const OptimizerParams& params, const Factors& f, const float* gradient_sum,
                const float* w_in, float* w_out, float* state0, float* state1, size_t n) {
  switch (params.kind) {
    case OptimizerKind::kSgd:
      STRATA_FOR_EACH(SgdAt, kFar);
      return;
    case OptimizerKind::kMomentumSgd:
      STRATA_FOR_EACH(MomentumAt, kFar);
      return;
    case OptimizerKind::kNesterov:
      STRATA_FOR_EACH(NesterovAt, kFar);
      return;
    case OptimizerKind::kAdam:
      STRATA_FOR_EACH(AdamAt, kFar);
      return;
    case OptimizerKind::kAdamW:
      STRATA_FOR_EACH(AdamWAt, kFar);
      return;
    case OptimizerKind::kRmspropWarmup:
      STRATA_FOR_EACH(RmspropWarmupAt, kFar);
      return;
    case OptimizerKind::kAdagrad:
      STRATA_FOR_EACH(AdagradAt, kFar);
      return;
    case OptimizerKind::kFtrl:
      if (f.lr < kFtrlRateMin) {
        STRATA_FOR_EACH(StayAt, kFar);
      } else {
        STRATA_FOR_EACH(FtrlAt, kFar);
      }
      return;
    case OptimizerKind::kMean:
      STRATA_FOR_EACH(MeanAt, kFar);
      return;
  }
}

#undef STRATA_FOR_EACH

void Optimize(const OptimizerParams& params, const OptimizerStep& step, const float* gradient_sum,
              const float* w_in, float* w_out, float* state0, float* state1, size_t n) {
  const Factors f = MakeFactors(params, step);
  // State that a rule does not use is null; any valid address works for the arithmetic above.
  if (state0 == nullptr) state0 = w_out;
  if (state1 == nullptr) state1 = w_out;
  const auto optimize = step.far ? OptimizeTo<true> : OptimizeTo<false>;
  optimize(params, f, gradient_sum, w_in, w_out, state0, state1, n);
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels::cpu {

HWY_EXPORT(Optimize);

void Optimize(const OptimizerParams& params, const OptimizerStep& step, const float* gradient_sum,
              const float* w_in, float* w_out, float* state0, float* state1, size_t n) {
  HWY_DYNAMIC_DISPATCH(Optimize)(params, step, gradient_sum, w_in, w_out, state0, state1, n);
}

}  // namespace strata::kernels::cpu
#endif  // HWY_ONCE
