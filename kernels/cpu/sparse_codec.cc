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

// How p is computed.
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

// Returns which magnitudes reach the threshold. Neither has its highest bit set once 1 is
// subtracted from the threshold, so they compare as signed.
template <class D>
HWY_INLINE hn::Mask<D> Reaches(D words, hn::Vec<D> bits, uint32_t threshold) {
  const hn::RebindToSigned<D> ints;
  const auto magnitude = hn::BitCast(ints, hn::And(bits, hn::Set(words, kMagnitude)));
  const auto below = hn::Set(ints, static_cast<int32_t>(threshold - 1));
  return hn::RebindMask(words, hn::Gt(magnitude, below));
}

// Appends the elements from i on that reach the threshold.
template <class D>
HWY_INLINE size_t Append(D d, hn::Vec<D> p, uint32_t threshold, size_t i, const Candidates& to,
                         size_t count) {
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::BitCast(words, p);
  const auto reaches = Reaches(words, bits, threshold);
  if (hn::AllFalse(words, reaches)) return 0;
  const auto index = hn::Add(hn::Set(words, static_cast<uint32_t>(i)), hn::Iota(words, 0));
  hn::CompressStore(bits, reaches, words, to.bits + count);
  return hn::CompressStore(index, reaches, words, to.indices + count);
}

// Calls step(tag, i) for whole vectors of `n` words, then for single lanes.
template <class Step>
HWY_INLINE void ForEach(size_t n, Step step) {
  const hn::ScalableTag<uint32_t> d;
  const hn::CappedTag<uint32_t, 1> one;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  for (; i < n; ++i) step(one, i);
}

size_t Count(const uint32_t* bits, size_t n, uint32_t threshold) {
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  size_t count = 0, i = 0;
  // Four at a time: true lanes are -1, so sums of masks count; none of them overflows.
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  const auto ones = [&](size_t at) {
    return hn::VecFromMask(d, Reaches(d, hn::LoadU(d, bits + at), threshold));
  };
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Sub(sum0, ones(i));
    sum1 = hn::Sub(sum1, ones(i + lanes));
    sum2 = hn::Sub(sum2, ones(i + 2 * lanes));
    sum3 = hn::Sub(sum3, ones(i + 3 * lanes));
  }
  count = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < n; ++i) count += (bits[i] & kMagnitude) >= threshold ? 1 : 0;
  return count;
}

size_t Between(const uint32_t* bits, size_t n, uint32_t low, uint32_t high, uint32_t* to) {
  size_t count = 0;
  ForEach(n, [&](auto d, size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, bits + i);
    const auto inside = hn::AndNot(Reaches(d, value, high), Reaches(d, value, low));
    count += hn::CompressStore(value, inside, d, to + count);
  });
  return count;
}

// Elements are written before the position of those still unread.
size_t Keep(const Candidates& candidates, size_t n, uint32_t threshold) {
  size_t count = 0;
  ForEach(n, [&](auto d, size_t i) HWY_ATTR {
    const auto bits = hn::LoadU(d, candidates.bits + i);
    const auto index = hn::LoadU(d, candidates.indices + i);
    const auto reaches = Reaches(d, bits, threshold);
    hn::CompressStore(bits, reaches, d, candidates.bits + count);
    count += hn::CompressStore(index, reaches, d, candidates.indices + count);
  });
  return count;
}

template <Rule kRule>
size_t AccumulateAll(const float* x, const Accumulators& from, uint32_t threshold,
                     const Candidates& to, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  size_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    count += Append(d, StepAt<kRule, true>(d, x, from, i), threshold, i, to, count);
  }
  for (; i < n; ++i) {
    count += Append(one, StepAt<kRule, true>(one, x, from, i), threshold, i, to, count);
  }
  return count;
}

size_t Accumulate(const float* x, const Accumulators& accumulators, uint32_t threshold,
                  const Candidates& candidates, size_t n) {
  // Copies that no store can change, so that their fields stay in registers.
  const Accumulators from = accumulators;
  const Candidates to = candidates;
  switch (RuleOf(from)) {
    case Rule::kResidual:
      return AccumulateAll<Rule::kResidual>(x, from, threshold, to, n);
    case Rule::kMomentum:
      return AccumulateAll<Rule::kMomentum>(x, from, threshold, to, n);
    case Rule::kFollow:
      return AccumulateAll<Rule::kFollow>(x, from, threshold, to, n);
  }
  return 0;
}

size_t Select(const float* p, uint32_t threshold, const Candidates& to, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  size_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    count += Append(d, hn::LoadU(d, p + i), threshold, i, to, count);
  }
  for (; i < n; ++i) count += Append(one, hn::LoadU(one, p + i), threshold, i, to, count);
  return count;
}

template <Rule kRule>
size_t SampleAll(const float* x, const Accumulators& to, uint32_t* bits, size_t n) {
  const hn::CappedTag<float, kSampleRun> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const size_t runs = SampleCount(n) / kSampleRun;
  const size_t stride = runs == 0 ? 0 : n / runs;
  for (size_t run = 0; run < runs; ++run) {
    for (size_t j = 0; j < kSampleRun; j += hn::Lanes(d)) {
      const auto p = StepAt<kRule, false>(d, x, to, run * stride + j);
      hn::StoreU(hn::BitCast(words, p), words, bits + run * kSampleRun + j);
    }
  }
  return runs * kSampleRun;
}

size_t Sample(const float* x, const Accumulators& to, uint32_t* bits, size_t n) {
  switch (RuleOf(to)) {
    case Rule::kResidual:
      return SampleAll<Rule::kResidual>(x, to, bits, n);
    case Rule::kMomentum:
      return SampleAll<Rule::kMomentum>(x, to, bits, n);
    case Rule::kFollow:
      return SampleAll<Rule::kFollow>(x, to, bits, n);
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

SparseCodec Sparse() { return {Accumulate, Select, Sample, Count, Between, Keep, IndicesAscend}; }

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels::cpu {

HWY_EXPORT(Sparse);

SparseCodec Sparse() { return HWY_DYNAMIC_DISPATCH(Sparse)(); }

}  // namespace strata::kernels::cpu
#endif  // HWY_ONCE
