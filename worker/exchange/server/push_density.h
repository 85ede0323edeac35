#ifndef STRATA_WORKER_EXCHANGE_SERVER_PUSH_DENSITY_H_
#define STRATA_WORKER_EXCHANGE_SERVER_PUSH_DENSITY_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Tells the share of a chunk's elements that a node's pushes send, where they are sparse: with DGC
// it comes down over the first epochs.
//
// Threads: one.
class PushDensity {
 public:
  // Reads the job's `push`. The other nodes are taken to be as fast as this one.
  PushDensity(const proto::JobRecord& record, NodeId node, uint32_t chunks);

  // The share that the chunk's next sum sends, over `samples` of the node. Once per sum, in order.
  double Next(ChunkId chunk, uint32_t samples);
  // The samples of the chunk's sums so far, where the share depends on them; else 0. To go on from.
  uint64_t samples(ChunkId chunk) const { return samples_[chunk.value()]; }
  void GoOnFrom(ChunkId chunk, uint64_t samples) { samples_[chunk.value()] = samples; }

 private:
  const proto::Encoding encoding_;
  const double density_;            // but for a warm-up
  const double epochs_per_sample_;  // of this node
  std::vector<uint64_t> samples_;   // of each chunk's sums so far
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_SERVER_PUSH_DENSITY_H_
