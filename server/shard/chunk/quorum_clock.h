#ifndef STRATA_SERVER_SHARD_CHUNK_QUORUM_CLOCK_H_
#define STRATA_SERVER_SHARD_CHUNK_QUORUM_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "kernels/kernels.h"
#include "server/shard/chunk/accumulator.h"
#include "server/shard/chunk/chunk_copy.h"

namespace strata::server {

// The open clock of one chunk in a mode whose clocks close without all nodes. It holds what has
// come since the last one closed. A push is either in time, and waits for the clock to close, or
// has missed its clock: then it counts here, and nobody waits.
//
// The sum has the same bits in any order of arrival: it adds the pushes in time along the tree over
// nodes, then the late ones along the same tree, each node's late pushes in order. The same holds
// for the mean rate: over nodes in order, those in time first.
//
// Threads: one.
class QuorumClock {
 public:
  // `kernels` and `pool` outlive it.
  QuorumClock(const kernels::Kernels& kernels, BufferPool& pool, size_t nodes, size_t elements);

  // The number of samples in a push, and the node's learning rate, if it gives one.
  struct Share {
    uint32_t samples = 0;
    float rate = 0;
  };
  // Adds a push that is in time. `sum` is finite, or empty: all elements of the chunk, summed over
  // the share's samples. REQUIRES: the node does not wait.
  void Join(size_t node, Addend sum, const Share& share);
  // Adds a push that has missed its clock; a node may have any number of these.
  void JoinLate(size_t node, Addend sum, const Share& share);

  // Returns whether the node's push is in time and the clock has not closed.
  bool Waits(size_t node) const { return waits_[node]; }
  size_t waiting() const { return waiting_; }
  // Returns whether any push of the node is held.
  bool Holds(size_t node) const { return waits_[node] || late_.count(node) > 0; }
  bool empty() const { return waiting_ == 0 && late_.empty(); }
  uint64_t samples() const { return samples_; }
  // Returns the mean of the pushes' rates, weighted by samples; 0 without samples.
  double MeanRate() const;

  // Closes the clock. Returns the total sum as fp32; empty if only empty sums have come. Later
  // pushes belong to the next clock.
  Bytes Close();

  // Adds the held pushes to a copy, which is empty.
  void AddTo(ChunkCopy* copy);
  void Restore(ChunkCopyReader* reader);

  // The number of buffers held now, and their bytes.
  size_t held() const;
  size_t held_bytes() const;

 private:
  Bytes Sum(const Bytes& left, const Bytes& right);

  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  const size_t elements_;
  const std::unique_ptr<Accumulator> in_time_;
  std::map<size_t, Addend> late_;           // by node: the sum of its late pushes
  std::vector<bool> waits_;                 // by node
  std::vector<double> rates_, late_rates_;  // by node: the sum over its pushes of rate times
                                            // samples
  size_t waiting_ = 0;
  uint64_t samples_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_QUORUM_CLOCK_H_
