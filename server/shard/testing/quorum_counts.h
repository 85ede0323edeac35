#ifndef STRATA_SERVER_SHARD_TESTING_QUORUM_COUNTS_H_
#define STRATA_SERVER_SHARD_TESTING_QUORUM_COUNTS_H_

#include <cmath>
#include <cstdint>
#include <map>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace strata::server {

// Looks at the weights of a chunk that began with zeros, in a job with a quorum in which each push
// of one sample adds `each` to a weight of its own. A clock's mean is over the pushes that it
// holds, so that each of k pushes adds each / k, and there are k such weights for each clock of k.
// Fails the test where a push counts for nothing, or is in two clocks. Returns how many pushes are
// in clocks of how many.
inline std::map<uint32_t, uint32_t> PushesByClockSize(absl::Span<const float> weights, float each) {
  std::map<uint32_t, uint32_t> pushes;
  for (const float weight : weights) {
    EXPECT_GT(weight, 0) << "a push that does not count";
    if (!(weight > 0)) continue;
    const float size = std::round(each / weight);
    EXPECT_GE(size, 1) << "a push that counts twice: " << weight;
    EXPECT_NEAR(weight, each / size, 1e-6f * each) << "the share of no clock";
    ++pushes[static_cast<uint32_t>(size)];
  }
  for (const auto& [size, count] : pushes) {
    EXPECT_EQ(count % size, 0) << count << " pushes in clocks of " << size;
  }
  return pushes;
}

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_TESTING_QUORUM_COUNTS_H_
