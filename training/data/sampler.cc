#include "training/data/sampler.h"

#include <numeric>
#include <utility>

#include "common/random.h"
#include "common/require.h"

namespace strata::worker {

std::vector<uint32_t> EpochOrder(size_t samples, uint64_t seed, uint64_t epoch) {
  STRATA_REQUIRE(samples <= UINT32_MAX);
  constexpr uint64_t kOrderStream = 0x6f72646572u;
  const uint64_t key = RandomKey(RandomKey(seed, kOrderStream), epoch);
  std::vector<uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0u);
  for (size_t i = samples; i > 1; --i) {
    std::swap(order[i - 1], order[RandomBelow(key, i, i)]);
  }
  return order;
}

}  // namespace strata::worker
