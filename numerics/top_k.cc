#include "numerics/top_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/require.h"
#include "common/wire/payload.h"

namespace strata::numerics {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffff;
// First step upwards from the least magnitude, which is an eighth of an octave: the cut is near it
// if the threshold of the candidates was a good one.
constexpr uint32_t kFirstStep = 1 << 20, kStepMax = 1 << 28;
// Rounds after which what lies outside of the bracket is left behind, where that pays.
constexpr int kNarrowEvery = 6;
constexpr size_t kNarrowFrom = 1024;

}  // namespace

size_t LargestCount(double density, size_t n) {
  const auto wanted = static_cast<uint64_t>(std::llround(density * static_cast<double>(n)));
  return std::clamp<uint64_t>(wanted, std::min<size_t>(1, n), wire::SparseCountMax(n));
}

Cut CutOfLargest(const kernels::SparseCodec& sparse, const uint32_t* bits, size_t n, size_t k,
                 uint32_t least, uint32_t* scratch) {
  STRATA_REQUIRE(1 <= k && k <= n);
  // At least k magnitudes reach `low`, namely `reach_low`, and fewer reach `high`; `dropped` of
  // those are no longer among the bits.
  uint32_t low = least, high = kMagnitude + 1, step = kFirstStep;
  size_t reach_low = n, reach_high = 0, dropped = 0;
  bool climbs = true;  // until the first magnitude is found that fewer than k reach
  for (int round = 1; high - low > 1; ++round) {
    const uint32_t half = (high - low) / 2;
    const uint32_t middle = low + (climbs ? std::min(step, half) : half);
    step = std::min(step, kStepMax) * 4;
    const size_t reach = dropped + sparse.count(bits, n, middle);
    (reach >= k ? low : high) = middle;
    (reach >= k ? reach_low : reach_high) = reach;
    const bool found = climbs && reach < k;
    climbs = climbs && !found;
    if ((found || round % kNarrowEvery == 0) && n > kNarrowFrom) {
      n = sparse.between(bits, n, low, high, scratch);
      bits = scratch;
      dropped = reach_high;
    }
  }
  return {low, k - reach_high, reach_low - reach_high};
}

uint32_t ThresholdFromSample(const kernels::SparseCodec& sparse, const uint32_t* sample,
                             size_t sampled, size_t n, size_t k, uint32_t* scratch) {
  if (sampled == 0) return 1;
  // A count of the sample scatters by about its root: at four of those too few candidates are rare.
  const double expected = static_cast<double>(sampled) * static_cast<double>(k) / n;
  const auto wanted = static_cast<size_t>(expected + 4 * std::sqrt(expected) + 4);
  if (wanted >= sampled) return 1;
  // If the sample has fewer than that many but zeros, the cut is 1.
  return CutOfLargest(sparse, sample, sampled, wanted, 1, scratch).cut;
}

void KeepLargest(const kernels::SparseCodec& sparse, const kernels::Candidates& candidates,
                 size_t n, size_t k, uint32_t least, uint32_t* scratch) {
  const Cut cut = CutOfLargest(sparse, candidates.bits, n, k, least, scratch);
  if (cut.at_cut == cut.equal) {
    sparse.keep(candidates, n, cut.cut);
    return;
  }
  // Up to the last of the equal ones that belong to the largest, and after it.
  size_t split = 0;
  for (size_t equal = 0; equal < cut.at_cut; ++split) {
    equal += (candidates.bits[split] & kMagnitude) == cut.cut ? 1 : 0;
  }
  const size_t kept = sparse.keep(candidates, split, cut.cut);
  const kernels::Candidates rest = {candidates.indices + split, candidates.bits + split};
  const size_t after = sparse.keep(rest, n - split, cut.cut + 1);
  std::memmove(candidates.indices + kept, rest.indices, after * sizeof(uint32_t));
  std::memmove(candidates.bits + kept, rest.bits, after * sizeof(uint32_t));
}

}  // namespace strata::numerics
