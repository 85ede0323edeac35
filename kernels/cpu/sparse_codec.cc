// Compiled once per instruction set (foreach_target); cpu.cc sees only the dispatcher at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sparse_codec.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr uint32_t kMagnitude = 0x7fffffff;

template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Magnitude(D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> words;
  return hn::And(hn::BitCast(words, v), hn::Set(words, kMagnitude));
}

// How p comes about.
enum class Rule { kResidual, kMomentum, kFollow };
Rule RuleOf(const Accumulators& to) {
  if (to.feedback == Feedback::kFollow) return Rule::kFollow;
  return to.momentum == nullptr ? Rule::kResidual : Rule::kMomentum;
}

// p[i]; changes the state and the momentum if kStore.
template <Rule kRule, bool kStore, class D>
HWY_INLINE hn::Vec<D> StepAt(D d, const float* x, const Accumulators& to, size_t i) {
  auto step = hn::LoadU(d, x + i);
  const auto state = hn::LoadU(d, to.state + i);
  if constexpr (kRule == Rule::kFollow) return hn::Sub(step, state);
  if constexpr (kRule == Rule::kMomentum) {
    step = hn::Add(hn::Mul(hn::Set(d, to.factor), hn::LoadU(d, to.momentum + i)), step);
    if constexpr (kStore) hn::StoreU(step, d, to.momentum + i);
  }
  const auto p = hn::Add(state, step);
  if constexpr (kStore) hn::StoreU(p, d, to.state + i);
  return p;
}

// Appends the indices from i on of lanes that reach the threshold.
template <class D>
HWY_INLINE size_t Append(D d, hn::Vec<D> p, uint32_t threshold_bits, size_t i,
                         uint32_t* candidates) {
  const hn::RebindToUnsigned<D> words;
  const hn::RebindToSigned<D> ints;
  // Neither has its highest bit set, so they compare as signed.
  const auto below = hn::Set(ints, static_cast<int32_t>(threshold_bits - 1));
  const auto reaches = hn::Gt(hn::BitCast(ints, Magnitude(d, p)), below);
  if (hn::AllFalse(ints, reaches)) return 0;
  const auto index = hn::Add(hn::Set(words, static_cast<uint32_t>(i)), hn::Iota(words, 0));
  return hn::CompressStore(index, hn::RebindMask(words, reaches), words, candidates);
}

template <Rule kRule>
size_t AccumulateAll(const float* x, const Accumulators& to, uint32_t threshold_bits,
                     uint32_t* candidates, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  size_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    count += Append(d, StepAt<kRule, true>(d, x, to, i), threshold_bits, i, candidates + count);
  }
  for (; i < n; ++i) {
    count += Append(one, StepAt<kRule, true>(one, x, to, i), threshold_bits, i, candidates + count);
  }
  return count;
}

size_t Accumulate(const float* x, const Accumulators& to, uint32_t threshold_bits,
                  uint32_t* candidates, size_t n) {
  // A copy that no store can change, so that its fields stay in registers.
  const Accumulators local = to;
  switch (RuleOf(to)) {
    case Rule::kResidual:
      return AccumulateAll<Rule::kResidual>(x, local, threshold_bits, candidates, n);
    case Rule::kMomentum:
      return AccumulateAll<Rule::kMomentum>(x, local, threshold_bits, candidates, n);
    case Rule::kFollow:
      return AccumulateAll<Rule::kFollow>(x, local, threshold_bits, candidates, n);
  }
  return 0;
}

size_t Select(const float* p, uint32_t threshold_bits, uint32_t* candidates, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  size_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    count += Append(d, hn::LoadU(d, p + i), threshold_bits, i, candidates + count);
  }
  for (; i < n; ++i) {
    count += Append(one, hn::LoadU(one, p + i), threshold_bits, i, candidates + count);
  }
  return count;
}

template <Rule kRule>
size_t SampleAll(const float* x, const Accumulators& to, uint32_t* magnitudes, size_t n) {
  const hn::CappedTag<float, kSampleRun> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const size_t runs = SampleCount(n) / kSampleRun;
  const size_t stride = runs == 0 ? 0 : n / runs;
  for (size_t run = 0; run < runs; ++run) {
    for (size_t j = 0; j < kSampleRun; j += hn::Lanes(d)) {
      const auto p = StepAt<kRule, false>(d, x, to, run * stride + j);
      hn::StoreU(Magnitude(d, p), words, magnitudes + run * kSampleRun + j);
    }
  }
  return runs * kSampleRun;
}

size_t Sample(const float* x, const Accumulators& to, uint32_t* magnitudes, size_t n) {
  switch (RuleOf(to)) {
    case Rule::kResidual:
      return SampleAll<Rule::kResidual>(x, to, magnitudes, n);
    case Rule::kMomentum:
      return SampleAll<Rule::kMomentum>(x, to, magnitudes, n);
    case Rule::kFollow:
      return SampleAll<Rule::kFollow>(x, to, magnitudes, n);
  }
  return 0;
}

bool IndicesAscend(const std::byte* indices, size_t count, size_t n) {
  if (count == 0) return true;
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto* at = reinterpret_cast<const uint32_t*>(indices);
  const auto read = [&](size_t i) {
    uint32_t index;
    std::memcpy(&index, indices + i * sizeof index, sizeof index);
    return index;
  };
  size_t i = 0;
  for (; i + lanes + 1 <= count; i += lanes) {
    if (!hn::AllTrue(d, hn::Lt(hn::LoadU(d, at + i), hn::LoadU(d, at + i + 1)))) return false;
  }
  for (; i + 1 < count; ++i) {
    if (read(i) >= read(i + 1)) return false;
  }
  return read(count - 1) < n;
}

SparseCodec Sparse() { return {Accumulate, Select, Sample, IndicesAscend}; }

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels::cpu {

HWY_EXPORT(Sparse);

SparseCodec Sparse() { return HWY_DYNAMIC_DISPATCH(Sparse)(); }

}  // namespace strata::kernels::cpu
#endif  // HWY_ONCE
