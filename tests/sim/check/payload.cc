#include "tests/sim/check/payload.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "common/transport/sim/random.h"

namespace strata::sim {
namespace {

constexpr size_t kTableSize = 1 << 15;

// Floats in [-1, 1) with all bits of the mantissa in use; a gradient is a stretch of it.
const std::vector<float>& Table() {
  static const std::vector<float> table = [] {
    std::vector<float> values(kTableSize);
    transport::SimRandom random(1);
    for (float& value : values) value = static_cast<float>(2 * random.Fraction() - 1);
    return values;
  }();
  return table;
}

const float* Stretch(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint32_t elements) {
  transport::SimRandom random((((a * 1000003 + b) * 1000003 + c) * 1000003 + d) * 1000003);
  return Table().data() + random.Below(kTableSize - elements);
}

}  // namespace

uint32_t Payload::LedgerElements(uint32_t chunk_elements) const {
  const uint64_t wanted = plan_.all_ranks() * plan_.clocks;
  return plan_.has_ledger() && wanted <= chunk_elements ? static_cast<uint32_t>(wanted) : 0;
}

uint32_t Payload::SamplesOf(uint32_t rank) const {
  if (plan_.is_elastic()) return 1;
  uint32_t total = 1;
  while (total < plan_.ranks()) total *= 2;
  return rank + 1 < plan_.ranks() ? 1 : total - rank;
}

std::vector<float> Payload::FirstWeights(ChunkId chunk, uint32_t elements) const {
  const float* from = Stretch(plan_.data, chunk.value(), 77, 77, elements);
  std::vector<float> weights(from, from + elements);
  std::fill_n(weights.begin(), LedgerElements(elements), 0.0f);
  return weights;
}

void Payload::Gradient(uint32_t rank, ChunkId chunk, uint64_t clock, uint32_t node_samples,
                       uint32_t variant, uint32_t elements, float* out, uint32_t ranks) const {
  std::memcpy(out, Stretch(plan_.data + 16 * variant, rank, chunk.value(), clock, elements),
              elements * sizeof(float));
  const uint32_t ledger = LedgerElements(elements);
  if (ledger == 0) return;
  std::fill_n(out, ledger, 0.0f);
  // The shard's divisor; for lazy on arrival also the share to which the rate is cut.
  float weight = 0;
  if (absl::StrContains(plan_.consistency, "async")) {
    weight = node_samples;
  } else if (absl::StrContains(plan_.consistency, "ON_ARRIVAL")) {
    weight = plan_.is_elastic() ? ranks : node_samples * plan_.nodes;
  } else if (plan_.is_elastic()) {
    weight = ranks;
  } else {
    for (uint32_t r = 0; r < plan_.ranks(); ++r) weight += SamplesOf(r);
  }
  out[rank * plan_.clocks + clock] = -weight;
}

}  // namespace strata::sim
