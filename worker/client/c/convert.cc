#include "worker/client/c/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"
#include "kernels/kernels.h"

namespace strata::client {
namespace {

absl::Status NoSuchType(strata_dtype dtype) {
  return absl::InvalidArgumentError(
      absl::StrFormat("dtype %d is none of STRATA_FLOAT32, FLOAT64, FLOAT16, BFLOAT16", dtype));
}

// IEEE 754 binary16 to fp32: exact.
float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16, magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude << 13));
  // 2^112 makes up for the other exponent, also where the number is subnormal.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// The same back, to nearest, ties to even; too large ones become infinite.
uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14f) {
    // Subnormal: in units of 2^-24, which the addition rounds to.
    const float units = magnitude * 0x1p24f + 0x1p23f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(units) & 0x7fff));
  }
  const uint32_t kept = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = kept + 0xfff + (kept >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

float FromBrain(uint16_t brain) { return std::bit_cast<float>(uint32_t{brain} << 16); }

uint16_t ToBrain(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename From, typename Convert>
void ConvertAll(const void* values, const Convert& convert, absl::Span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    From from;
    std::memcpy(&from, static_cast<const std::byte*>(values) + i * sizeof from, sizeof from);
    to[i] = convert(from);
  }
}

// Names the first element that is not finite, if there is one.
absl::Status CheckFinite(absl::Span<const float> values) {
  if (kernels::Cpu().all_finite(values.data(), values.size())) return absl::OkStatus();
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return absl::InvalidArgumentError(absl::StrFormat(
      "element %d is %s as fp32", bad - values.begin(), std::isnan(*bad) ? "NaN" : "infinite"));
}

void Scale(double scale, absl::Span<float> values) {
  if (scale == 1.0) return;
  const auto factor = static_cast<float>(scale);
  for (float& value : values) value *= factor;
}

}  // namespace

absl::Status ToFloats(const void* values, strata_dtype dtype, double scale, absl::Span<float> to) {
  switch (dtype) {
    case STRATA_FLOAT32:
      if (scale == 1.0) {
        const float* const inputs[] = {static_cast<const float*>(values)};
        // The sum of one: a copy that looks at each element.
        if (kernels::Cpu().sum(absl::MakeConstSpan(inputs), to.data(), to.size()))
          return absl::OkStatus();
        return CheckFinite(to);
      }
      std::memcpy(to.data(), values, to.size() * sizeof(float));
      break;
    case STRATA_FLOAT64:
      ConvertAll<double>(
          values, [scale](double value) { return static_cast<float>(value * scale); }, to);
      return CheckFinite(to);
    case STRATA_FLOAT16:
      ConvertAll<uint16_t>(values, FromHalf, to);
      break;
    case STRATA_BFLOAT16:
      ConvertAll<uint16_t>(values, FromBrain, to);
      break;
    default:
      return NoSuchType(dtype);
  }
  Scale(scale, to);
  return CheckFinite(to);
}

absl::Status FromFloats(absl::Span<const float> from, strata_dtype dtype, void* to) {
  switch (dtype) {
    case STRATA_FLOAT32:
      std::memcpy(to, from.data(), from.size() * sizeof(float));
      return absl::OkStatus();
    case STRATA_FLOAT64:
      std::copy(from.begin(), from.end(), static_cast<double*>(to));
      return absl::OkStatus();
    case STRATA_FLOAT16:
      std::transform(from.begin(), from.end(), static_cast<uint16_t*>(to), ToHalf);
      return absl::OkStatus();
    case STRATA_BFLOAT16:
      std::transform(from.begin(), from.end(), static_cast<uint16_t*>(to), ToBrain);
      return absl::OkStatus();
    default:
      return NoSuchType(dtype);
  }
}

}  // namespace strata::client
