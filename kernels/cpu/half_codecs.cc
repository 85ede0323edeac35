// Compiled once per instruction set (foreach_target); cpu.cc sees only the dispatchers at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/half_codecs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <bit>
#include <cstring>

#include "common/wire/payload.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
#include "kernels/cpu/blocks.inc"
namespace strata::kernels::HWY_NAMESPACE {

// Returns whether each of `n` 16-bit codes, without its sign, is below `limit`.
HWY_INLINE bool HalvesAreBelow(const std::byte* codes, size_t n, int16_t limit) {
  const hn::ScalableTag<int16_t> d;
  const auto* halves = reinterpret_cast<const int16_t*>(codes);
  const size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7fff);
  auto even = hn::Zero(d), odd = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    FetchAhead(halves + i);
    FetchAhead(halves + i + lanes);
    even = hn::Max(even, hn::And(hn::LoadU(d, halves + i), magnitude));
    odd = hn::Max(odd, hn::And(hn::LoadU(d, halves + i + lanes), magnitude));
  }
  if (!hn::AllTrue(d, hn::Lt(hn::Max(even, odd), hn::Set(d, limit)))) return false;
  for (; i < n; ++i) {
    int16_t half;
    std::memcpy(&half, codes + 2 * i, sizeof half);
    if ((half & 0x7fff) >= limit) return false;
  }
  return true;
}

struct Float16 {
  static constexpr bool kScaled = true;
  static constexpr size_t kBits = 16;
  using Halves = hn::Rebind<uint16_t, Floats>;

  // `t` is below 65520, so it rounds to a finite half.
  template <class V>
  static HWY_INLINE auto Demote(V t) {
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, Floats> d16;
    return hn::BitCast(Halves(), hn::DemoteTo(d16, t));
#else
    const Words d;
    const auto bits = hn::BitCast(d, t);
    const auto magnitude = hn::And(bits, hn::Set(d, kMagnitude));
    // Below 2^-14 the unit is 2^-24, which is that of 0.5f: the addition rounds.
    const auto small =
        hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(Floats(), magnitude), hn::Set(Floats(), 0.5f))),
                hn::Set(d, 0x3f000000u));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1u));
    // Another bias of the exponent, and round to nearest even.
    const auto rebiased = hn::Add(hn::Add(magnitude, odd), hn::Set(d, 0xc8000fffu));
    const auto is_small = hn::Lt(hn::BitCast(Ints(), magnitude), hn::Set(Ints(), 0x38800000));
    const auto half =
        hn::IfThenElse(hn::RebindMask(d, is_small), small, hn::ShiftRight<13>(rebiased));
    const auto sign = hn::ShiftLeft<15>(hn::ShiftRight<31>(bits));
    return hn::TruncateTo(Halves(), hn::Or(half, sign));
#endif
  }
  template <class H>
  static HWY_INLINE hn::Vec<Floats> Promote(H halves) {
#if HWY_TARGET <= HWY_AVX2
    return hn::PromoteTo(Floats(), hn::BitCast(hn::Rebind<hwy::float16_t, Floats>(), halves));
#else
    const Words d;
    const auto bits = hn::PromoteTo(d, halves);
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d, 0x7fffu)));
    const auto sign = hn::ShiftLeft<31>(hn::ShiftRight<15>(bits));
    const auto value = hn::Mul(hn::BitCast(Floats(), magnitude), hn::Set(Floats(), 0x1p112f));
    return hn::Or(value, hn::BitCast(Floats(), sign));
#endif
  }

  // The largest magnitude becomes 2^14 to 2^15, where the halves' range allows it.
  template <Feedback kFeedback>
  static bool Encode(const float* x, float* state, size_t n, size_t, float* scale,
                     std::byte* codes) {
    const int32_t largest = MagnitudeMax<kFeedback>(x, state, n);
    if (largest >= 0x7f7ff000) return false;  // would round to 2^128
    const int32_t up = std::clamp(14 - ((largest >> 23) - 127), -112, 125);
    *scale = std::bit_cast<float>((127 - up) << 23);
    const Floats d;
    const auto factor = hn::Set(d, std::bit_cast<float>((127 + up) << 23));
    const auto back = hn::Set(d, *scale);
    for (size_t i = 0; i < n; i += kLanes) {
      const auto p = At<kFeedback>(x, state, i);
      const auto halves = Demote(hn::Mul(p, factor));
      hn::StoreU(halves, Halves(), reinterpret_cast<uint16_t*>(codes) + i);
      Keep<kFeedback>(p, hn::Mul(Promote(halves), back), state, i);
    }
    return true;
  }
  static bool ScaleIsGood(uint32_t bits) {
    return (bits & 0x7fffff) == 0 && bits >= std::bit_cast<uint32_t>(wire::kFloat16ScaleMin) &&
           bits <= std::bit_cast<uint32_t>(wire::kFloat16ScaleMax);
  }
  static bool CodesAreGood(const std::byte* codes, size_t n) {
    return HalvesAreBelow(codes, n, 0x7c00);
  }
  template <bool kAdd>
  static void Decode(float scale, const std::byte* codes, const float* base, float* out, size_t n) {
    const auto back = hn::Set(Floats(), scale);
    const auto* halves = reinterpret_cast<const uint16_t*>(codes);
    for (size_t i = 0; i < n; i += kLanes) {
      Write<kAdd>(hn::Mul(Promote(hn::LoadU(Halves(), halves + i)), back), base, out, i);
    }
  }
};

struct BFloat16 {
  static constexpr bool kScaled = false;
  static constexpr size_t kBits = 16;
  using Halves = hn::Rebind<uint16_t, Floats>;

  template <Feedback kFeedback>
  static bool Encode(const float* x, float* state, size_t n, size_t, float*, std::byte* codes) {
    const Words d;
    auto largest = hn::Zero(Ints());
    for (size_t i = 0; i < n; i += kLanes) {
      FetchNext<kFeedback>(x, state, i);
      const auto p = At<kFeedback>(x, state, i);
      const auto bits = hn::BitCast(d, p);
      largest = hn::Max(largest, hn::And(hn::BitCast(Ints(), bits), hn::Set(Ints(), kMagnitude)));
      const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
      const auto upper = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fffu))));
      hn::StoreU(hn::TruncateTo(Halves(), upper), Halves(), reinterpret_cast<uint16_t*>(codes) + i);
      Keep<kFeedback>(p, hn::BitCast(Floats(), hn::ShiftLeft<16>(upper)), state, i);
    }
    // From there on it would round to 2^128.
    return hn::GetLane(hn::MaxOfLanes(Ints(), largest)) < 0x7f7f8000;
  }
  static bool ScaleIsGood(uint32_t) { return true; }
  static bool CodesAreGood(const std::byte* codes, size_t n) {
    return HalvesAreBelow(codes, n, 0x7f80);
  }
  template <bool kAdd>
  static void Decode(float, const std::byte* codes, const float* base, float* out, size_t n) {
    const auto* halves = reinterpret_cast<const uint16_t*>(codes);
    for (size_t i = 0; i < n; i += kLanes) {
      const auto bits = hn::PromoteTo(Words(), hn::LoadU(Halves(), halves + i));
      Write<kAdd>(hn::BitCast(Floats(), hn::ShiftLeft<16>(bits)), base, out, i);
    }
  }
};

DenseCodec Float16Codec() { return CodecOf<Float16>(); }
DenseCodec BFloat16Codec() { return CodecOf<BFloat16>(); }

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels::cpu {

HWY_EXPORT(Float16Codec);
HWY_EXPORT(BFloat16Codec);

DenseCodec Float16Codec() { return HWY_DYNAMIC_DISPATCH(Float16Codec)(); }
DenseCodec BFloat16Codec() { return HWY_DYNAMIC_DISPATCH(BFloat16Codec)(); }

}  // namespace strata::kernels::cpu
#endif  // HWY_ONCE
