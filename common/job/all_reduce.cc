#include "common/job/all_reduce.h"

#include <algorithm>
#include <bit>

#include "common/os/limits.h"

namespace strata {

using proto::AllReduce;

double AllReduceSeconds(AllReduce::Algorithm algorithm, const AllReduceWork& work,
                        const LinkCost& link) {
  const double n = work.nodes;
  const double transfer_s = static_cast<double>(work.bytes) / link.bytes_per_s;
  const double turns = std::max(1.0, static_cast<double>(work.chunks) / work.window);
  if (algorithm == AllReduce::HALVING_DOUBLING) {
    const double power = std::bit_floor(work.nodes);
    const double rounds = std::bit_width(work.nodes) - 1;
    // Nodes beyond a power of two send everything to another node, and get it back.
    const double folds = n == power ? 0 : 2;
    return turns * (2 * rounds + folds) * link.latency_s +
           (2 * (power - 1) / power + folds) * transfer_s;
  }
  return turns * 2 * (n - 1) * link.latency_s + 2 * (n - 1) / n * transfer_s;
}

AllReduce::Algorithm FasterAllReduce(const AllReduceWork& work, const LinkCost& link) {
  const bool halving = AllReduceSeconds(AllReduce::HALVING_DOUBLING, work, link) <
                       AllReduceSeconds(AllReduce::RING, work, link);
  return halving ? AllReduce::HALVING_DOUBLING : AllReduce::RING;
}

uint32_t DefaultAllReduceChunkElements(uint64_t elements, uint32_t nodes) {
  constexpr uint64_t kLeast = (64 << 10) / sizeof(float), kMost = (512 << 10) / sizeof(float);
  constexpr uint64_t kLeastPerNode = (16 << 10) / sizeof(float);
  const uint64_t chunk = std::max(std::clamp(elements / 64, kLeast, kMost), kLeastPerNode * nodes);
  return static_cast<uint32_t>(std::min({elements, chunk, uint64_t{kChunkElementsMax}}));
}

}  // namespace strata
