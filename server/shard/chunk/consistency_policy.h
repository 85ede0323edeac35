#ifndef STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_POLICY_H_
#define STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_POLICY_H_

#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "proto/job.pb.h"

namespace strata::server {

// The number of pushes of a node that holds nobody up.
inline constexpr uint64_t kClockInfinity = std::numeric_limits<uint64_t>::max();

// What distinguishes the modes of consistency: when a push is applied, when it is answered, and how
// much it counts. Pure data and arithmetic; chunk_state.h does the rest, the same for all modes.
//
//   sync             per clock, gate 0 (so it is lazy with s = 0, bit for bit)
//   lazy(s)          per clock, gate s
//   lazy(s, arrival) on arrival, gate s
//   lazy(0, quorum)  per clock, of which each chunk has one open: it closes once K nodes are in it
//   async            on arrival, no gate
class ConsistencyPolicy {
 public:
  static ConsistencyPolicy Of(const proto::Consistency& consistency);

  // Summed over all nodes and applied once per clock, or each push by itself when it arrives.
  bool applies_per_clock() const { return per_clock_; }
  // Whether all nodes get the same versions: those after each clock.
  bool answers_alike() const { return per_clock_ && staleness_bound_ == 0 && !has_quorum(); }
  // Nodes that close a clock, and for how long it then waits for the others; 0: all nodes do.
  bool has_quorum() const { return quorum_ > 0; }
  uint32_t quorum() const { return quorum_; }
  absl::Duration grace() const { return grace_; }
  // Whether the divisor of a push on arrival is a whole clock's samples, or the push's own.
  bool scales_to_clock() const { return gated_; }
  // How many clocks of one chunk can be incomplete at a time, per clock.
  uint64_t open_clocks_max() const { return staleness_bound_ + 1; }

  // Whether push `clock` may be answered: every node has pushed clock + 1 - s. With a quorum: if it
  // is in no open clock.
  bool MayAnswer(uint64_t clock, uint64_t min_clock) const {
    if (!gated_ || has_quorum()) return true;
    return min_clock >= clock + 1 || clock + 1 - min_clock <= staleness_bound_;
  }

  // Staleness as it stands in the answer to push `clock`: where there is a gate, how many clocks
  // the slowest node is behind the push; else, and with a quorum, how many updates were applied
  // between the weights that the gradient was computed with and this one.
  uint32_t StalenessOf(uint64_t clock, uint64_t min_clock, uint32_t versions_behind) const;

  // Factor of the learning rate for a push that is `versions_behind`.
  double Damping(uint32_t versions_behind) const {
    return inverse_damping_ && versions_behind > 1 ? 1.0 / versions_behind : 1.0;
  }

 private:
  bool per_clock_ = true;
  bool gated_ = true;
  bool inverse_damping_ = false;
  uint64_t staleness_bound_ = 0;
  uint32_t quorum_ = 0;
  absl::Duration grace_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_POLICY_H_
