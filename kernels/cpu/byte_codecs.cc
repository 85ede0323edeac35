// Compiled once per instruction set (foreach_target); cpu.cc sees only the dispatchers at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/byte_codecs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "common/wire/payload.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
#include "kernels/cpu/blocks.inc"
namespace strata::kernels::HWY_NAMESPACE {

struct Int8 {
  static constexpr bool kScaled = true;
  static constexpr size_t kBits = 8;

  template <Feedback kFeedback>
  static bool Encode(const float* x, float* state, size_t n, size_t, float* scale,
                     std::byte* codes) {
    const int32_t largest = MagnitudeMax<kFeedback>(x, state, n);
    if (largest >= 0x7f800000) return false;
    // Rounded up to 16 significant bits: then fp32 represents code * scale.
    const auto exact = std::bit_cast<uint32_t>(std::bit_cast<float>(largest) / 127.0f);
    *scale = std::clamp(std::bit_cast<float>((exact + 0xff) & ~0xffu), wire::kInt8ScaleMin,
                        wire::kInt8ScaleMax);
    const Floats d;
    const auto inverse = hn::Set(d, 1.0f / *scale), back = hn::Set(d, *scale);
    // Its unit is 1: the addition rounds to nearest even and leaves the code in the lowest byte.
    const auto rounder = hn::Set(d, 0x1.8p23f);
    const hn::Rebind<uint8_t, Floats> d8;
    for (size_t i = 0; i < n; i += kLanes) {
      const auto p = At<kFeedback>(x, state, i);
      const auto rounded = hn::Add(hn::Mul(p, inverse), rounder);
      hn::StoreU(hn::TruncateTo(d8, hn::BitCast(Words(), rounded)), d8,
                 reinterpret_cast<uint8_t*>(codes) + i);
      Keep<kFeedback>(p, hn::Mul(hn::Sub(rounded, rounder), back), state, i);
    }
    return true;
  }
  static bool ScaleIsGood(uint32_t bits) {
    return (bits & 0xff) == 0 && bits >= std::bit_cast<uint32_t>(wire::kInt8ScaleMin) &&
           bits <= std::bit_cast<uint32_t>(wire::kInt8ScaleMax);
  }
  static bool CodesAreGood(const std::byte* codes, size_t n) {
    const hn::ScalableTag<int8_t> d;
    const size_t lanes = hn::Lanes(d);
    const auto* signed_codes = reinterpret_cast<const int8_t*>(codes);
    auto least = hn::Zero(d), others = hn::Zero(d);
    size_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      FetchAhead(signed_codes + i);
      FetchAhead(signed_codes + i + lanes);
      least = hn::Min(least, hn::LoadU(d, signed_codes + i));
      others = hn::Min(others, hn::LoadU(d, signed_codes + i + lanes));
    }
    if (!hn::AllFalse(d, hn::Eq(hn::Min(least, others), hn::Set(d, -128)))) return false;
    for (; i < n; ++i) {
      if (codes[i] == std::byte{0x80}) return false;
    }
    return true;
  }
  template <bool kAdd>
  static void Decode(float scale, const std::byte* codes, const float* base, float* out, size_t n) {
    const hn::Rebind<int8_t, Floats> d8;
    const auto back = hn::Set(Floats(), scale);
    for (size_t i = 0; i < n; i += kLanes) {
      const auto code =
          hn::PromoteTo(Ints(), hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes) + i));
      Write<kAdd>(hn::Mul(hn::ConvertTo(Floats(), code), back), base, out, i);
    }
  }
};

struct OneBit {
  static constexpr bool kScaled = true;
  static constexpr size_t kBits = 1;

  // Sum of magnitudes: kStep partial sums, then halves onto halves, at any width of the vectors.
  template <Feedback kFeedback>
  static float MagnitudeSum(const float* x, const float* state, size_t n) {
    const Floats d;
    constexpr size_t kVectors = kStep / kLanes;
    hn::Vec<Floats> partial[kVectors];
    for (auto& sum : partial) sum = hn::Zero(d);
    for (size_t i = 0; i < n; i += kStep) {
      for (size_t j = 0; j < kVectors; ++j) {
        FetchNext<kFeedback>(x, state, i + j * kLanes);
        partial[j] = hn::Add(partial[j], hn::Abs(At<kFeedback>(x, state, i + j * kLanes)));
      }
    }
    HWY_ALIGN float sums[kStep];
    for (size_t j = 0; j < kVectors; ++j) hn::StoreU(partial[j], d, sums + j * kLanes);
    for (size_t half = kStep / 2; half > 0; half /= 2) {
      for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    return sums[0];
  }

  // `count`: elements without the padding, whose magnitude is 0.
  template <Feedback kFeedback>
  static bool Encode(const float* x, float* state, size_t n, size_t count, float* scale,
                     std::byte* codes) {
    const float sum = MagnitudeSum<kFeedback>(x, state, n);
    if (!(sum <= std::numeric_limits<float>::max())) return false;
    *scale = std::max(sum / static_cast<float>(count), wire::kOneBitScaleZero);
    const Floats d;
    const auto plus = hn::Set(d, Value(*scale)), minus = hn::Set(d, -Value(*scale));
    constexpr size_t kGroup = kLanes < 8 ? 8 : kLanes;  // whole bytes
    for (size_t i = 0; i < n; i += kGroup) {
      uint32_t word = 0;
      for (size_t j = 0; j < kGroup; j += kLanes) {
        const auto p = At<kFeedback>(x, state, i + j);
        const auto negative = hn::Lt(p, hn::Zero(d));
        uint8_t bits[8];
        hn::StoreMaskBits(d, negative, bits);
        // Lanes of one vector fill a byte or two, or half a byte.
        if constexpr (kLanes > 8) std::memcpy(&word, bits, 2);
        if constexpr (kLanes <= 8) word |= uint32_t{bits[0]} << j;
        Keep<kFeedback>(p, hn::IfThenElse(negative, minus, plus), state, i + j);
      }
      std::memcpy(codes + i / 8, &word, kGroup / 8);
    }
    return true;
  }

  static float Value(float scale) { return scale == wire::kOneBitScaleZero ? 0.0f : scale; }
  static bool ScaleIsGood(uint32_t bits) {
    return bits >= std::bit_cast<uint32_t>(wire::kOneBitScaleZero) && bits < 0x7f800000;
  }
  static bool CodesAreGood(const std::byte* codes, size_t n) {
    return n % 8 == 0 || std::to_integer<uint32_t>(codes[n / 8]) >> (n % 8) == 0;
  }

  template <bool kAdd>
  static void Decode(float scale, const std::byte* codes, const float* base, float* out, size_t n) {
    const Floats d;
    const Words words;
    const auto plus = hn::Set(d, Value(scale)), minus = hn::Set(d, -Value(scale));
    for (size_t i = 0; i < n; i += kStep) {
      uint32_t bits;
      std::memcpy(&bits, codes + i / 8, sizeof bits);
      const auto word = hn::Set(words, bits);
      for (size_t j = 0; j < kStep; j += kLanes) {
        const auto bit = hn::LoadU(words, kBitOfLane + j);
        const auto negative = hn::RebindMask(d, hn::TestBit(word, bit));
        Write<kAdd>(hn::IfThenElse(negative, minus, plus), base, out, i + j);
      }
    }
  }

 private:
  HWY_ALIGN static constexpr uint32_t kBitOfLane[kStep] = {
      1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
      1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
      1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
      1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};
};

DenseCodec Int8Codec() { return CodecOf<Int8>(); }
DenseCodec OneBitCodec() { return CodecOf<OneBit>(); }

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels::cpu {

HWY_EXPORT(Int8Codec);
HWY_EXPORT(OneBitCodec);

DenseCodec Int8Codec() { return HWY_DYNAMIC_DISPATCH(Int8Codec)(); }
DenseCodec OneBitCodec() { return HWY_DYNAMIC_DISPATCH(OneBitCodec)(); }

}  // namespace strata::kernels::cpu
#endif  // HWY_ONCE
