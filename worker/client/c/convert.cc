#include "worker/client/c/convert.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"
#include "common/diverged.h"
#include "worker/client/c/vectors.h"

namespace strata::client {
namespace {

absl::Status NoSuchType(strata_dtype dtype) {
  return absl::InvalidArgumentError(
      absl::StrFormat("dtype %d is none of STRATA_FLOAT32, FLOAT64, FLOAT16, BFLOAT16", dtype));
}

}  // namespace

absl::Status ToFloats(const void* values, strata_dtype dtype, double scale, absl::Span<float> to) {
  const auto factor = static_cast<float>(scale);
  bool finite = false;
  switch (dtype) {
    case STRATA_FLOAT32:
      finite = vectors::FromFloats(static_cast<const float*>(values), factor, to.data(), to.size());
      break;
    case STRATA_FLOAT64:
      finite =
          vectors::FromDoubles(static_cast<const double*>(values), scale, to.data(), to.size());
      break;
    case STRATA_FLOAT16:
      finite =
          vectors::FromHalves(static_cast<const uint16_t*>(values), factor, to.data(), to.size());
      break;
    case STRATA_BFLOAT16:
      finite =
          vectors::FromBrains(static_cast<const uint16_t*>(values), factor, to.data(), to.size());
      break;
    default:
      return NoSuchType(dtype);
  }
  if (finite) return absl::OkStatus();
  const auto bad =
      std::find_if(to.begin(), to.end(), [](float value) { return !std::isfinite(value); });
  return DivergedError(absl::StrFormat("element %d is %s as fp32", bad - to.begin(),
                                       std::isnan(*bad) ? "NaN" : "infinite"));
}

absl::Status FromFloats(absl::Span<const float> from, strata_dtype dtype, void* to) {
  switch (dtype) {
    case STRATA_FLOAT32:
      std::memcpy(to, from.data(), from.size() * sizeof(float));
      return absl::OkStatus();
    case STRATA_FLOAT64:
      vectors::ToDoubles(from.data(), static_cast<double*>(to), from.size());
      return absl::OkStatus();
    case STRATA_FLOAT16:
      vectors::ToHalves(from.data(), static_cast<uint16_t*>(to), from.size());
      return absl::OkStatus();
    case STRATA_BFLOAT16:
      vectors::ToBrains(from.data(), static_cast<uint16_t*>(to), from.size());
      return absl::OkStatus();
    default:
      return NoSuchType(dtype);
  }
}

}  // namespace strata::client
