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

// sum[i] after the step; stores it, and the momentum, if kStore.
template <bool kMomentum, bool kStore, class D>
HWY_INLINE hn::Vec<D> StepAt(D d, const float* x, const Accumulators& to, hn::Vec<D> factor,
                             size_t i) {
  auto step = hn::LoadU(d, x + i);
  if constexpr (kMomentum) {
    step = hn::Add(hn::Mul(factor, hn::LoadU(d, to.momentum + i)), step);
    if constexpr (kStore) hn::StoreU(step, d, to.momentum + i);
  }
  const auto sum = hn::Add(hn::LoadU(d, to.sum + i), step);
  if constexpr (kStore) hn::StoreU(sum, d, to.sum + i);
  return sum;
}

// Appends the indices from i on of lanes that reach the threshold.
template <class D>
HWY_INLINE size_t Append(D d, hn::Vec<D> sum, uint32_t threshold_bits, size_t i,
                         uint32_t* candidates) {
  const hn::RebindToUnsigned<D> words;
  const hn::RebindToSigned<D> ints;
  // Neither has its highest bit set, so they compare as signed.
  const auto below = hn::Set(ints, static_cast<int32_t>(threshold_bits - 1));
  const auto reaches = hn::Gt(hn::BitCast(ints, Magnitude(d, sum)), below);
  if (hn::AllFalse(ints, reaches)) return 0;
  const auto index = hn::Add(hn::Set(words, static_cast<uint32_t>(i)), hn::Iota(words, 0));
  return hn::CompressStore(index, hn::RebindMask(words, reaches), words, candidates);
}

template <bool kMomentum>
size_t AccumulateAll(const float* x, const Accumulators& to, float factor, uint32_t threshold_bits,
                     uint32_t* candidates, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  const auto factors = hn::Set(d, factor);
  size_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto sum = StepAt<kMomentum, true>(d, x, to, factors, i);
    count += Append(d, sum, threshold_bits, i, candidates + count);
  }
  for (; i < n; ++i) {
    const auto sum = StepAt<kMomentum, true>(one, x, to, hn::Set(one, factor), i);
    count += Append(one, sum, threshold_bits, i, candidates + count);
  }
  return count;
}

size_t Accumulate(const float* x, const Accumulators& to, float factor, uint32_t threshold_bits,
                  uint32_t* candidates, size_t n) {
  return to.momentum == nullptr ? AccumulateAll<false>(x, to, factor, threshold_bits, candidates, n)
                                : AccumulateAll<true>(x, to, factor, threshold_bits, candidates, n);
}

size_t Select(const float* sum, uint32_t threshold_bits, uint32_t* candidates, size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  size_t count = 0, i = 0;
  for (; i + lanes <= n; i += lanes) {
    count += Append(d, hn::LoadU(d, sum + i), threshold_bits, i, candidates + count);
  }
  for (; i < n; ++i) {
    count += Append(one, hn::LoadU(one, sum + i), threshold_bits, i, candidates + count);
  }
  return count;
}

template <bool kMomentum>
size_t SampleAll(const float* x, const Accumulators& to, float factor, uint32_t* magnitudes,
                 size_t n) {
  const hn::CappedTag<float, kSampleRun> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const size_t runs = SampleCount(n) / kSampleRun;
  const size_t stride = runs == 0 ? 0 : n / runs;
  for (size_t run = 0; run < runs; ++run) {
    for (size_t j = 0; j < kSampleRun; j += hn::Lanes(d)) {
      const auto sum = StepAt<kMomentum, false>(d, x, to, hn::Set(d, factor), run * stride + j);
      hn::StoreU(Magnitude(d, sum), words, magnitudes + run * kSampleRun + j);
    }
  }
  return runs * kSampleRun;
}

size_t Sample(const float* x, const Accumulators& to, float factor, uint32_t* magnitudes,
              size_t n) {
  return to.momentum == nullptr ? SampleAll<false>(x, to, factor, magnitudes, n)
                                : SampleAll<true>(x, to, factor, magnitudes, n);
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
