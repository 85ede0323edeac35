// Compiled once per instruction set (foreach_target); cpu.cc sees only the dispatchers at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Vector = hn::ScalableTag<float>;
using OneLane = hn::CappedTag<float, 1>;

constexpr size_t Split(size_t count) {
  size_t left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

// The tree over in[0..K) at element i, in registers.
template <size_t K, class D>
HWY_INLINE hn::Vec<D> TreeAt(D d, const float* const* in, size_t i) {
  if constexpr (K == 1) {
    return hn::LoadU(d, in[0] + i);
  } else {
    constexpr size_t kLeft = Split(K);
    return hn::Add(TreeAt<kLeft>(d, in, i), TreeAt<K - kLeft>(d, in + kLeft, i));
  }
}

HWY_INLINE bool IsAligned(const float* at, size_t lanes) {
  return reinterpret_cast<uintptr_t>(at) % (lanes * sizeof(float)) == 0;
}

template <bool kFar, class D, class V>
HWY_INLINE void Write(V value, D d, float* out) {
  if constexpr (kFar) {
    hn::Stream(value, d, out);
  } else {
    hn::StoreU(value, d, out);
  }
}

// Every input is read at i before out is written there, so out may be one of them.
// kFar: past the caches.
template <size_t K, bool kFar = false>
HWY_NOINLINE void SumFew(const float* const* inputs, size_t offset, float* out, size_t n) {
  const float* in[K];
  for (size_t j = 0; j < K; ++j) in[j] = inputs[j] + offset;
  const Vector d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; kFar && i < n && !IsAligned(out + i, lanes); ++i) {  // Stream writes to whole vectors
    hn::StoreU(TreeAt<K>(OneLane(), in, i), OneLane(), out + i);
  }
  for (; i + lanes <= n; i += lanes) Write<kFar>(TreeAt<K>(d, in, i), d, out + i);
  for (; i < n; ++i) hn::StoreU(TreeAt<K>(OneLane(), in, i), OneLane(), out + i);
}

constexpr size_t kFewMax = 8;
// Partial sums of larger trees stay in the first-level cache: two tiles per halving.
constexpr size_t kTile = 512;
constexpr size_t kTilesMax = 64;

template <bool kFar = false>
void SumUpToFew(const float* const* inputs, size_t k, size_t offset, float* out, size_t n) {
  switch (k) {
    case 1:
      if (!kFar) return static_cast<void>(std::memmove(out, inputs[0] + offset, n * sizeof(float)));
      return SumFew<1, kFar>(inputs, offset, out, n);
    case 2:
      return SumFew<2, kFar>(inputs, offset, out, n);
    case 3:
      return SumFew<3, kFar>(inputs, offset, out, n);
    case 4:
      return SumFew<4, kFar>(inputs, offset, out, n);
    case 5:
      return SumFew<5, kFar>(inputs, offset, out, n);
    case 6:
      return SumFew<6, kFar>(inputs, offset, out, n);
    case 7:
      return SumFew<7, kFar>(inputs, offset, out, n);
    default:
      return SumFew<kFewMax, kFar>(inputs, offset, out, n);
  }
}

// One tile of the tree over k inputs. `out` is written only after all inputs were read there.
// Each level halves k and uses one tile of `scratch`, so kTilesMax is enough for any k.
void SumTile(const float* const* inputs, size_t k, size_t offset, float* out, size_t n,
             float* scratch) {
  if (k <= kFewMax) return SumUpToFew(inputs, k, offset, out, n);
  const size_t left = Split(k);
  const float* parts[2] = {scratch, out};
  SumTile(inputs, left, offset, scratch, n, scratch + kTile);
  if (k - left == 1) {
    parts[1] = inputs[left] + offset;
  } else {
    parts[1] = scratch + kTile;
    SumTile(inputs + left, k - left, offset, scratch + kTile, n, scratch + 2 * kTile);
  }
  SumFew<2>(parts, 0, out, n);
}

void Sum(absl::Span<const float* const> inputs, float* out, size_t n) {
  if (inputs.size() <= kFewMax) {
    if (inputs.size() > 1 || inputs[0] != out) SumUpToFew(inputs.data(), inputs.size(), 0, out, n);
    return;
  }
  alignas(64) float scratch[kTilesMax * kTile];
  for (size_t at = 0; at < n; at += kTile) {
    const size_t count = n - at < kTile ? n - at : kTile;
    SumTile(inputs.data(), inputs.size(), at, out + at, count, scratch);
  }
}

void SumFar(absl::Span<const float* const> inputs, float* out, size_t n) {
  if (inputs.size() > kFewMax) return Sum(inputs, out, n);  // the tiles' partial sums need caches
  SumUpToFew</*kFar=*/true>(inputs.data(), inputs.size(), 0, out, n);
  hwy::FlushStream();  // before any store that says that the sum is there
}

// Finite numbers are those whose exponent bits are not all ones: the largest of the bit patterns
// without sign tells for a whole tile.
bool AllFinite(const float* x, size_t n) {
  constexpr size_t kStride = 4096;
  const hn::ScalableTag<int32_t> d;
  const hn::CappedTag<int32_t, 1> one;
  const size_t lanes = hn::Lanes(d);
  const auto* bits = reinterpret_cast<const int32_t*>(x);
  size_t i = 0;
  while (i < n) {
    const size_t end = n - i < kStride ? n : i + kStride;
    const auto magnitude = hn::Set(d, 0x7fffffff);
    auto largest = hn::Zero(d);
    for (; i + lanes <= end; i += lanes) {
      largest = hn::Max(largest, hn::And(hn::LoadU(d, bits + i), magnitude));
    }
    if (!hn::AllTrue(d, hn::Lt(largest, hn::Set(d, 0x7f800000)))) return false;
    for (; i < end; ++i) {
      const auto value = hn::And(hn::LoadU(one, bits + i), hn::Set(one, 0x7fffffff));
      if (hn::GetLane(value) >= 0x7f800000) return false;
    }
  }
  return true;
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels::cpu {

HWY_EXPORT(Sum);
HWY_EXPORT(SumFar);
HWY_EXPORT(AllFinite);

void Sum(absl::Span<const float* const> inputs, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(Sum)(inputs, out, n);
}

void SumFar(absl::Span<const float* const> inputs, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(SumFar)(inputs, out, n);
}

bool AllFinite(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(AllFinite)(x, n); }

}  // namespace strata::kernels::cpu
#endif  // HWY_ONCE
