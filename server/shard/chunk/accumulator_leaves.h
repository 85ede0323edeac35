#ifndef STRATA_SERVER_SHARD_CHUNK_ACCUMULATOR_LEAVES_H_
#define STRATA_SERVER_SHARD_CHUNK_ACCUMULATOR_LEAVES_H_

#include <cstddef>
#include <random>
#include <vector>

#include "common/bytes.h"

namespace strata::server {

// Makes nodes' values for tests of accumulators, such that the sum's bits depend on its order.
inline std::vector<std::vector<float>> MakeLeaves(size_t count, size_t elements) {
  std::mt19937 random(count);
  std::uniform_real_distribution<float> values(-100.0f, 100.0f);
  std::vector<std::vector<float>> leaves(count, std::vector<float>(elements));
  for (auto& leaf : leaves) {
    for (float& x : leaf) x = values(random);
  }
  return leaves;
}

// A view of the vector's memory, which the test keeps.
inline Bytes View(const std::vector<float>& values) {
  return Bytes(nullptr, reinterpret_cast<const std::byte*>(values.data()),
               values.size() * sizeof(float));
}

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_ACCUMULATOR_LEAVES_H_
