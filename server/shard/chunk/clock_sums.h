#ifndef STRATA_SERVER_SHARD_CHUNK_CLOCK_SUMS_H_
#define STRATA_SERVER_SHARD_CHUNK_CLOCK_SUMS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/bytes.h"

namespace strata::server {

// All of a clock, as it was applied to a chunk.
struct ClockSum {
  uint64_t clock = 0;
  Bytes sum;  // fp32; empty: no node had one
  uint64_t samples = 0;
  float rate = 0;  // that the nodes say of the clock, if they do
};

// The sums of clocks of one chunk, kept for whoever applies them, too. A mode that adds the pushes
// of a clock says each.
//
// Threads: one.
class ClockSums {
 public:
  void Keep(bool keep) { keeps_ = keep; }
  void OnApplied(ClockSum sum) {
    if (keeps_) sums_.push_back(std::move(sum));
  }
  // Returns those since the last call, in order.
  std::vector<ClockSum> Take() { return std::exchange(sums_, {}); }

 private:
  bool keeps_ = false;
  std::vector<ClockSum> sums_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CLOCK_SUMS_H_
