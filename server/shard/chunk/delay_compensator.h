#ifndef STRATA_SERVER_SHARD_CHUNK_DELAY_COMPENSATOR_H_
#define STRATA_SERVER_SHARD_CHUNK_DELAY_COMPENSATOR_H_

#include <memory>

#include "common/bytes.h"
#include "common/job/optimizer.h"
#include "server/shard/chunk/consistency_mode.h"
#include "server/shard/chunk/given_weights.h"

namespace strata::server {

// Corrects a gradient for the updates since its node was given weights: g + lambda g g (w - w_base)
// (Zheng et al. 2017). There is one per chunk.
//
// Threads: one.
class DelayCompensator {
 public:
  DelayCompensator(const ChunkParts& chunk, const DelayCompensation& how)
      : chunk_(chunk), how_(how), given_(chunk.nodes.size()) {}

  void OnSeed();
  void OnAnswered(size_t node) { given_.GiveTo(node, chunk_.weights); }
  const WeightVersion& GivenTo(size_t node) const { return given_[node]; }

  // Returns the push's mean gradient, corrected. REQUIRES: `sum` is not empty.
  Bytes Correct(const Push& push, const Bytes& sum) const;

  // See ChunkMode.
  Bytes MeanSquare() const;
  void RestoreMeanSquare(const Bytes& mean_square);
  void AddTo(ChunkCopy* copy) const;
  void Restore(ChunkCopyReader* reader);

  size_t bytes() const;

 private:
  const ChunkParts chunk_;
  const DelayCompensation how_;
  GivenWeights given_;
  std::shared_ptr<float> mean_square_;  // where it is adaptive
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_DELAY_COMPENSATOR_H_
