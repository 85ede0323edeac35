// Compiled once per instruction set (foreach_target); other files see only the dispatchers at the
// end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/client/c/vectors.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/kernels.h"
#include "worker/client/c/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace strata::client::vectors::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Doubles = hn::ScalableTag<double>;
using HalfAsManyFloats = hn::Rebind<float, Doubles>;
using Halves = hn::Rebind<uint16_t, Floats>;
using Words = hn::RebindToUnsigned<Floats>;

template <class T>
HWY_INLINE T Load(const T* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Writes n elements: `vector_at(i)` gives one vector of D's lanes, `one_at(i)` a single element.
template <bool kFar, class D, class T, class VectorAt, class OneAt>
HWY_INLINE void Fill(D d, T* to, size_t n, const VectorAt& vector_at, const OneAt& one_at) {
  const size_t lanes = hn::Lanes(d);
  const size_t past = reinterpret_cast<uintptr_t>(to) / sizeof(T) % lanes;
  const size_t head = kFar && past != 0 ? std::min(n, lanes - past) : 0;
  size_t i = 0;
  for (; i < head; ++i) to[i] = one_at(i);
  for (; i + lanes <= n; i += lanes) {
    if constexpr (kFar) {
      hn::Stream(vector_at(i), d, to + i);
    } else {
      hn::StoreU(vector_at(i), d, to + i);
    }
  }
  for (; i < n; ++i) to[i] = one_at(i);
  if (kFar) hwy::FlushStream();
}

template <class D, class T, class VectorAt, class OneAt>
HWY_INLINE void FillNearOrFar(D d, T* to, size_t n, const VectorAt& vector_at,
                              const OneAt& one_at) {
  const bool aligned = reinterpret_cast<uintptr_t>(to) % sizeof(T) == 0;
  if (aligned && n * sizeof(T) >= kernels::kFarBytes) {
    Fill<true>(d, to, n, vector_at, one_at);
  } else {
    Fill<false>(d, to, n, vector_at, one_at);
  }
}

// The same; also returns whether all of them are finite, i.e. no exponent has all bits set.
template <class D, class VectorAt, class OneAt>
HWY_INLINE bool FillFinite(D d, float* to, size_t n, const VectorAt& vector_at,
                           const OneAt& one_at) {
  const hn::RebindToSigned<D> bits;
  const auto magnitude = hn::Set(bits, 0x7fffffff);
  auto largest = hn::Zero(bits);
  bool rest_is_finite = true;
  FillNearOrFar(
      d, to, n,
      [&](size_t i) HWY_ATTR {
        const auto values = vector_at(i);
        largest = hn::Max(largest, hn::And(hn::BitCast(bits, values), magnitude));
        return values;
      },
      [&](size_t i) HWY_ATTR {
        const float value = one_at(i);
        rest_is_finite &= std::isfinite(value);
        return value;
      });
  return rest_is_finite && hn::AllTrue(bits, hn::Lt(largest, hn::Set(bits, 0x7f800000)));
}

bool FromFloats(const float* values, float scale, float* to, size_t n) {
  const Floats d;
  const auto factor = hn::Set(d, scale);
  return FillFinite(
      d, to, n, [=](size_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, values + i), factor); },
      [=](size_t i) HWY_ATTR { return Load(values + i) * scale; });
}

bool FromDoubles(const double* values, double scale, float* to, size_t n) {
  const HalfAsManyFloats d;
  const auto factor = hn::Set(Doubles(), scale);
  return FillFinite(
      d, to, n,
      [=](size_t i)
          HWY_ATTR { return hn::DemoteTo(d, hn::Mul(hn::LoadU(Doubles(), values + i), factor)); },
      [=](size_t i) HWY_ATTR { return static_cast<float>(Load(values + i) * scale); });
}

bool FromHalves(const uint16_t* values, float scale, float* to, size_t n) {
  const auto one_at = [=](size_t i) HWY_ATTR { return FromHalf(Load(values + i)) * scale; };
#if HWY_TARGET <= HWY_AVX2
  const Floats d;
  const hn::Rebind<hwy::float16_t, Floats> d16;
  const auto factor = hn::Set(d, scale);
  return FillFinite(
      d, to, n,
      [=](size_t i) HWY_ATTR {
        const auto halves = hn::BitCast(d16, hn::LoadU(Halves(), values + i));
        return hn::Mul(hn::PromoteTo(d, halves), factor);
      },
      one_at);
#else
  bool finite = true;
  for (size_t i = 0; i < n; ++i) finite &= std::isfinite(to[i] = one_at(i));
  return finite;
#endif
}

bool FromBrains(const uint16_t* values, float scale, float* to, size_t n) {
  const Floats d;
  const auto factor = hn::Set(d, scale);
  return FillFinite(
      d, to, n,
      [=](size_t i) HWY_ATTR {
        const auto bits = hn::PromoteTo(Words(), hn::LoadU(Halves(), values + i));
        return hn::Mul(hn::BitCast(d, hn::ShiftLeft<16>(bits)), factor);
      },
      [=](size_t i) HWY_ATTR { return FromBrain(Load(values + i)) * scale; });
}

void ToDoubles(const float* values, double* to, size_t n) {
  const Doubles d;
  FillNearOrFar(
      d, to, n,
      [=](size_t i)
          HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(HalfAsManyFloats(), values + i)); },
      [=](size_t i) HWY_ATTR { return static_cast<double>(values[i]); });
}

void ToHalves(const float* values, uint16_t* to, size_t n) {
#if HWY_TARGET <= HWY_AVX2
  const Halves d;
  const hn::Rebind<hwy::float16_t, Floats> d16;
  FillNearOrFar(
      d, to, n,
      [=](size_t i)
          HWY_ATTR { return hn::BitCast(d, hn::DemoteTo(d16, hn::LoadU(Floats(), values + i))); },
      [=](size_t i) HWY_ATTR { return ToHalf(values[i]); });
#else
  std::transform(values, values + n, to, ToHalf);
#endif
}

void ToBrains(const float* values, uint16_t* to, size_t n) {
  const Halves d;
  const Words words;
  FillNearOrFar(
      d, to, n,
      [=](size_t i) HWY_ATTR {
        const auto value = hn::LoadU(Floats(), values + i);
        const auto bits = hn::BitCast(words, value);
        const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
        const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fffu)));
        const auto quiet = hn::Or(bits, hn::Set(words, 0x400000u));
        const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
        return hn::TruncateTo(d, hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded)));
      },
      [=](size_t i) HWY_ATTR { return ToBrain(values[i]); });
}

}  // namespace strata::client::vectors::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::client::vectors {

HWY_EXPORT(FromFloats);
HWY_EXPORT(FromDoubles);
HWY_EXPORT(FromHalves);
HWY_EXPORT(FromBrains);
HWY_EXPORT(ToDoubles);
HWY_EXPORT(ToHalves);
HWY_EXPORT(ToBrains);

bool FromFloats(const float* values, float scale, float* to, size_t n) {
  return HWY_DYNAMIC_DISPATCH(FromFloats)(values, scale, to, n);
}
bool FromDoubles(const double* values, double scale, float* to, size_t n) {
  return HWY_DYNAMIC_DISPATCH(FromDoubles)(values, scale, to, n);
}
bool FromHalves(const uint16_t* values, float scale, float* to, size_t n) {
  return HWY_DYNAMIC_DISPATCH(FromHalves)(values, scale, to, n);
}
bool FromBrains(const uint16_t* values, float scale, float* to, size_t n) {
  return HWY_DYNAMIC_DISPATCH(FromBrains)(values, scale, to, n);
}
void ToDoubles(const float* values, double* to, size_t n) {
  HWY_DYNAMIC_DISPATCH(ToDoubles)(values, to, n);
}
void ToHalves(const float* values, uint16_t* to, size_t n) {
  HWY_DYNAMIC_DISPATCH(ToHalves)(values, to, n);
}
void ToBrains(const float* values, uint16_t* to, size_t n) {
  HWY_DYNAMIC_DISPATCH(ToBrains)(values, to, n);
}

}  // namespace strata::client::vectors
#endif  // HWY_ONCE
