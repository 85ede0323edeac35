#include "kernels/codec/top_k.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace strata::kernels {
namespace {

// The 31 bits of a magnitude as three digits.
constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;
using Histogram = std::array<uint32_t, kDigits>;

uint32_t DigitOf(uint32_t magnitude, int shift) { return magnitude >> shift & (kDigits - 1); }

// The digit at which the `k` largest end; `*k` becomes how many of that digit belong to them.
uint32_t DigitAt(const Histogram& histogram, size_t* k) {
  uint32_t digit = kDigits - 1;
  while (histogram[digit] < *k) *k -= histogram[digit--];
  return digit;
}

}  // namespace

uint32_t ThresholdFromSample(absl::Span<const uint32_t> sample, size_t n, size_t k) {
  if (sample.empty()) return 1;
  // A count of the sample scatters by about its root: at four of those too few candidates are rare.
  const double expected = static_cast<double>(sample.size()) * static_cast<double>(k) / n;
  const auto wanted = static_cast<size_t>(expected + 4 * std::sqrt(expected) + 4);
  if (wanted >= sample.size()) return 1;
  constexpr int kShift = 31 - kDigitBits;
  Histogram histogram = {};
  for (uint32_t magnitude : sample) ++histogram[magnitude >> kShift];
  size_t rest = wanted;
  return std::max<uint32_t>(1, DigitAt(histogram, &rest) << kShift);
}

Cut CutOfLargest(absl::Span<uint32_t> magnitudes, size_t k) {
  uint32_t cut = 0;
  for (int shift : {20, 10, 0}) {
    // The first digit has 11 bits, the others 10.
    const uint32_t mask = shift == 20 ? kDigits - 1 : kDigits / 2 - 1;
    Histogram histogram = {};
    for (uint32_t magnitude : magnitudes) ++histogram[DigitOf(magnitude, shift) & mask];
    const uint32_t digit = DigitAt(histogram, &k);
    cut |= digit << shift;
    size_t kept = 0;
    for (uint32_t magnitude : magnitudes) {
      magnitudes[kept] = magnitude;
      kept += (DigitOf(magnitude, shift) & mask) == digit ? 1 : 0;
    }
    magnitudes = magnitudes.subspan(0, kept);
  }
  return {cut, k};
}

}  // namespace strata::kernels
