#ifndef STRATA_SERVER_SHARD_CHUNK_CHUNK_CUTS_H_
#define STRATA_SERVER_SHARD_CHUNK_CHUNK_CUTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/image/chunk_image.h"
#include "optimizer/weight_state.h"
#include "server/shard/chunk/chunk_nodes.h"

namespace strata::server {

// Takes the images of one chunk at every Nth clock, of its own accord: all chunks of a job are cut
// at the same clocks without a word between shards.
//
// Threads: one.
class ChunkCuts {
 public:
  // `every`: clocks from one image to the next; 0: none is taken. `weights` outlive it.
  ChunkCuts(uint64_t every, const kernels::WeightState& weights)
      : every_(every), next_(every), weights_(weights) {}

  // The weights go on from those of this clock: it has been cut.
  void GoOnFrom(uint64_t clock) {
    if (every_ > 0) next_ = (clock / every_ + 1) * every_;
  }

  // The pushes of all clocks before `clock` are in the weights, and no others.
  void OnClock(uint64_t clock) { CutUpTo(clock, {}); }
  // The same, and all that has been received is in them. Clocks may be left out: where nodes retire
  // the slowest is another one.
  void OnClockOf(uint64_t clock, const ChunkNodes& nodes);

  // Returns what was cut since the last call. As yet the images say no range of the arena, and have
  // weights alone.
  std::vector<ChunkImage> Take() { return std::exchange(images_, {}); }
  bool empty() const { return images_.empty(); }
  // The newest clock at which one was due; 0: none was.
  uint64_t last() const { return next_ - every_; }

 private:
  void CutUpTo(uint64_t clock, const std::vector<uint64_t>& applied);

  const uint64_t every_;
  uint64_t next_;
  const kernels::WeightState& weights_;
  std::vector<ChunkImage> images_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CHUNK_CUTS_H_
