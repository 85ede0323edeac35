#ifndef STRATA_SERVER_SHARD_CHUNK_STALENESS_GATE_H_
#define STRATA_SERVER_SHARD_CHUNK_STALENESS_GATE_H_

#include <algorithm>
#include <cstdint>

#include "server/shard/chunk/chunk_nodes.h"

namespace strata::server {

// Answers push t once every node has pushed t + 1 - s: nobody is more than s clocks ahead of the
// slowest node (stale synchronous parallel: Ho et al. 2013).
class StalenessGate {
 public:
  explicit StalenessGate(uint64_t staleness_bound) : bound_(staleness_bound) {}

  uint64_t bound() const { return bound_; }
  // Whether push `clock` may be answered when the slowest node has pushed `min_clock` times.
  bool MayAnswer(uint64_t clock, uint64_t min_clock) const {
    return min_clock >= clock + 1 || clock + 1 - min_clock <= bound_;
  }
  // How many clocks the slowest node is behind push `clock`.
  static uint32_t StalenessOf(uint64_t clock, uint64_t min_clock) {
    if (min_clock >= clock + 1) return 0;
    return static_cast<uint32_t>(std::min<uint64_t>(clock + 1 - min_clock, UINT32_MAX));
  }

 private:
  uint64_t bound_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_STALENESS_GATE_H_
