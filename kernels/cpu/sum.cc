// Compiled once per instruction set (foreach_target); cpu.cc sees only the dispatchers at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
#include "kernels/cpu/far.inc"
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

// Numbers are finite if their exponent bits are not all ones: the largest bit pattern without sign
// shows that for all of them.
template <class D>
using Bits = hn::Vec<hn::RebindToSigned<D>>;

template <class D>
HWY_INLINE Bits<D> NoBits(D) {
  return hn::Zero(hn::RebindToSigned<D>());
}

template <class D>
HWY_INLINE Bits<D> Largest(D, Bits<D> largest, hn::Vec<D> value) {
  const hn::RebindToSigned<D> d;
  return hn::Max(largest, hn::And(hn::BitCast(d, value), hn::Set(d, 0x7fffffff)));
}

template <class D>
HWY_INLINE bool IsFinite(D, Bits<D> largest) {
  const hn::RebindToSigned<D> d;
  return hn::AllTrue(d, hn::Lt(largest, hn::Set(d, 0x7f800000)));
}

// Every input is read at i before out is written there, so out may be one of them.
// kFar: past the caches.
template <size_t K, bool kFar = false>
HWY_NOINLINE bool SumFew(const float* const* inputs, size_t offset, float* out, size_t n) {
  const float* in[K];
  for (size_t j = 0; j < K; ++j) in[j] = inputs[j] + offset;
  const Vector d;
  const OneLane one;
  const size_t lanes = hn::Lanes(d);
  auto largest = NoBits(d);
  auto largest_of_rest = NoBits(one);
  size_t i = 0;
  const auto add_one = [&]() HWY_ATTR {
    const auto sum = TreeAt<K>(one, in, i);
    hn::StoreU(sum, one, out + i);
    largest_of_rest = Largest(one, largest_of_rest, sum);
    ++i;
  };
  const size_t head = kFar ? std::min(n, UnalignedHead(out, lanes)) : 0;
  while (i < head) add_one();
  for (; i + lanes <= n; i += lanes) {
    const auto sum = TreeAt<K>(d, in, i);
    Store<kFar>(sum, d, out + i);
    largest = Largest(d, largest, sum);
  }
  while (i < n) add_one();
  return IsFinite(d, largest) && IsFinite(one, largest_of_rest);
}

constexpr size_t kFewMax = 8;
// Partial sums of larger trees stay in the first-level cache: two tiles per halving.
constexpr size_t kTile = 512;
constexpr size_t kTilesMax = 64;

template <bool kFar = false>
bool SumUpToFew(const float* const* inputs, size_t k, size_t offset, float* out, size_t n) {
  switch (k) {
    case 1:
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

// Computes one tile of the tree over k inputs. `out` is written only after all inputs were read
// there. Each level halves k and uses one tile of `scratch`, so kTilesMax is enough for any k.
// Non-finite inputs make the root non-finite.
bool SumTile(const float* const* inputs, size_t k, size_t offset, float* out, size_t n,
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
  return SumFew<2>(parts, 0, out, n);
}

bool Sum(absl::Span<const float* const> inputs, float* out, size_t n) {
  if (inputs.size() <= kFewMax) return SumUpToFew(inputs.data(), inputs.size(), 0, out, n);
  alignas(64) float scratch[kTilesMax * kTile];
  bool is_finite = true;
  for (size_t at = 0; at < n; at += kTile) {
    const size_t count = n - at < kTile ? n - at : kTile;
    is_finite &= SumTile(inputs.data(), inputs.size(), at, out + at, count, scratch);
  }
  return is_finite;
}

bool SumFar(absl::Span<const float* const> inputs, float* out, size_t n) {
  if (inputs.size() > kFewMax) return Sum(inputs, out, n);  // the tiles' partial sums need caches
  const bool is_finite = SumUpToFew</*kFar=*/true>(inputs.data(), inputs.size(), 0, out, n);
  hwy::FlushStream();  // before any store that says that the sum is there
  return is_finite;
}

bool AllFinite(const float* x, size_t n) {
  constexpr size_t kStride = 4096;
  const Vector d;
  const OneLane one;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  while (i < n) {
    const size_t end = n - i < kStride ? n : i + kStride;
    auto largest = NoBits(d);
    auto largest_of_rest = NoBits(one);
    for (; i + lanes <= end; i += lanes) largest = Largest(d, largest, hn::LoadU(d, x + i));
    for (; i < end; ++i) {
      largest_of_rest = Largest(one, largest_of_rest, hn::LoadU(one, x + i));
    }
    if (!IsFinite(d, largest) || !IsFinite(one, largest_of_rest)) return false;
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

bool Sum(absl::Span<const float* const> inputs, float* out, size_t n) {
  return HWY_DYNAMIC_DISPATCH(Sum)(inputs, out, n);
}

bool SumFar(absl::Span<const float* const> inputs, float* out, size_t n) {
  return HWY_DYNAMIC_DISPATCH(SumFar)(inputs, out, n);
}

bool AllFinite(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(AllFinite)(x, n); }

}  // namespace strata::kernels::cpu
#endif  // HWY_ONCE
