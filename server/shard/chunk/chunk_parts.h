#ifndef STRATA_SERVER_SHARD_CHUNK_CHUNK_PARTS_H_
#define STRATA_SERVER_SHARD_CHUNK_CHUNK_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "numerics/weight_state.h"
#include "server/shard/chunk/chunk_copy.h"

namespace strata::server {

// The push count of a node that blocks nobody.
inline constexpr uint64_t kClockInfinity = std::numeric_limits<uint64_t>::max();

// The progress of one node with one chunk.
struct NodeProgress {
  uint64_t received = 0;  // pushes, contiguous from clock 0
  bool waiting = false;   // the last push is unanswered
  bool retired = false;
  // About the last push:
  uint32_t incarnation = 0;
  uint64_t checksum = 0;
  uint32_t samples = 0;
  float rate = 0;
  uint32_t versions_behind = 0;  // updates since the weights that it was computed with
  // An unanswered CUT:
  bool cut_waiting = false;
  uint64_t cut_clock = 0;
  uint64_t joined_at = 0;  // the clock of its first push; 0: in the job from the start

  // Returns whether a push with the last one's clock has other content, if the checksums of both
  // are known. Rates are not compared.
  bool HasOtherContent(uint64_t checksum_now, uint32_t samples_now) const {
    const bool both_known = checksum_now != 0 && checksum != 0;
    return (both_known && checksum_now != checksum) || samples_now != samples;
  }
};

// The progress of all nodes with one chunk, by their index.
//
// Threads: one.
class ChunkNodes {
 public:
  explicit ChunkNodes(size_t nodes) : nodes_(nodes) {}

  size_t size() const { return nodes_.size(); }
  NodeProgress& operator[](size_t node) { return nodes_[node]; }
  const NodeProgress& operator[](size_t node) const { return nodes_[node]; }

  // Returns the least number of pushes received from any node that has not retired; kClockInfinity
  // if all have.
  uint64_t Gate() const;
  // Like Gate, but once all nodes have retired that have pushed since they joined, returns the
  // greatest number of pushes received from any of them.
  uint64_t MinClock() const;
  // Reverts the node's last push, number `clock`, to not received.
  // REQUIRES: it is the node's last one.
  void Withdraw(size_t node, uint64_t clock);
  // The node participates from this clock on, as if it had pushed all earlier ones. No effect if it
  // has joined at this clock or a later one.
  void Join(size_t node, uint64_t clock);
  // Returns whether it has joined the job and none of its pushes has been answered.
  bool IsNew(size_t node) const;
  // Returns how many pushes of the node are in weights that include those of all nodes before
  // `clock`, if pushes are applied on arrival. A node outside the job counts like the others.
  uint64_t AppliedBy(size_t node, uint64_t clock) const;

 private:
  std::vector<NodeProgress> nodes_;
};

// Answers push t once every node has pushed t + 1 - s: nobody is more than s clocks ahead of the
// slowest node (stale synchronous parallel: Ho et al. 2013).
class StalenessGate {
 public:
  explicit StalenessGate(uint64_t staleness_bound) : bound_(staleness_bound) {}

  uint64_t bound() const { return bound_; }
  // Returns whether push `clock` may be answered when the slowest node has pushed `min_clock`
  // times.
  bool MayAnswer(uint64_t clock, uint64_t min_clock) const {
    return min_clock >= clock + 1 || clock + 1 - min_clock <= bound_;
  }
  // Returns how many clocks the slowest node is behind push `clock`.
  static uint32_t StalenessOf(uint64_t clock, uint64_t min_clock) {
    if (min_clock >= clock + 1) return 0;
    return static_cast<uint32_t>(std::min<uint64_t>(clock + 1 - min_clock, UINT32_MAX));
  }

 private:
  uint64_t bound_;
};

// Takes the images of one chunk at every Nth clock by itself: all chunks of a job are cut at the
// same clocks without communication between shards.
//
// Threads: one.
class ChunkCuts {
 public:
  // `every`: clocks between images; 0: none are taken. `weights` outlive it.
  ChunkCuts(uint64_t every, const numerics::WeightState& weights)
      : every_(every), next_(every), weights_(weights) {}

  // The weights continue from those of this clock, which has been cut.
  void GoOnFrom(uint64_t clock) {
    if (every_ > 0) next_ = (clock / every_ + 1) * every_;
  }

  // The weights contain exactly the pushes of all clocks before `clock`.
  void OnClock(uint64_t clock) { CutUpTo(clock, {}); }
  // The same, but they contain everything received. Clocks may be skipped: when nodes retire,
  // another one becomes the slowest.
  void OnClockOf(uint64_t clock, const ChunkNodes& nodes);

  // Returns the images since the last call. They have only weights so far, and no range of the
  // arena.
  std::vector<ChunkImage> Take() { return std::exchange(images_, {}); }
  bool empty() const { return images_.empty(); }
  // The newest clock at which one was due; 0: none was.
  uint64_t last() const { return next_ - every_; }

 private:
  void CutUpTo(uint64_t clock, const std::vector<uint64_t>& applied);

  const uint64_t every_;
  uint64_t next_;
  const numerics::WeightState& weights_;
  std::vector<ChunkImage> images_;
};

// A whole clock, as it was applied to a chunk.
struct ClockSum {
  uint64_t clock = 0;
  Bytes sum;  // fp32; empty: no node had one
  uint64_t samples = 0;
  float rate = 0;  // learning rate from the nodes' programs, if they give it
};

// The sums of clocks of one chunk, kept for a backup that applies them, too. A mode that sums the
// pushes of a clock reports each sum.
//
// Threads: one.
class ClockSums {
 public:
  void Keep(bool keep) { keeps_ = keep; }
  void OnApplied(ClockSum sum) {
    if (keeps_) sums_.push_back(std::move(sum));
  }
  // Returns the sums since the last call, in order.
  std::vector<ClockSum> Take() { return std::exchange(sums_, {}); }

 private:
  bool keeps_ = false;
  std::vector<ClockSum> sums_;
};

struct WeightVersion {
  uint64_t version = 0;
  Bytes weights;
};

// The weights of one chunk that each node was given last, for modes that use them later.
//
// Threads: one.
class GivenWeights {
 public:
  explicit GivenWeights(size_t nodes) : given_(nodes) {}

  void GiveTo(size_t node, const numerics::WeightState& weights) {
    given_[node] = {weights.version(), weights.weights()};
  }
  void GiveToAll(const numerics::WeightState& weights);
  const WeightVersion& operator[](size_t node) const { return given_[node]; }

  // See ChunkMode.
  void AddTo(ChunkCopy* copy) const;
  void Restore(ChunkCopyReader* reader);

  // Returns the bytes of those that are not the newest: each is held for one node, or few.
  size_t bytes(const numerics::WeightState& newest) const;

 private:
  std::vector<WeightVersion> given_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CHUNK_PARTS_H_
