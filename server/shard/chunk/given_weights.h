#ifndef STRATA_SERVER_SHARD_CHUNK_GIVEN_WEIGHTS_H_
#define STRATA_SERVER_SHARD_CHUNK_GIVEN_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/bytes.h"
#include "optimizer/weight_state.h"
#include "server/shard/copy/chunk_copy.h"

namespace strata::server {

struct WeightVersion {
  uint64_t version = 0;
  Bytes weights;
};

// The weights of one chunk that each node was given last, for modes that go on from these.
//
// Threads: one.
class GivenWeights {
 public:
  explicit GivenWeights(size_t nodes) : given_(nodes) {}

  void GiveTo(size_t node, const kernels::WeightState& weights) {
    given_[node] = {weights.version(), weights.weights()};
  }
  void GiveToAll(const kernels::WeightState& weights);
  const WeightVersion& operator[](size_t node) const { return given_[node]; }

  // See ChunkMode.
  void AddTo(ChunkCopy* copy) const;
  void Restore(ChunkCopyReader* reader);

  // Returns the bytes of those that are not the newest: each of them is held for one node, or few.
  size_t bytes(const kernels::WeightState& newest) const;

 private:
  std::vector<WeightVersion> given_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_GIVEN_WEIGHTS_H_
