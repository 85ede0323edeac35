#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_REDUCE_PLAN_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_REDUCE_PLAN_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"

namespace strata::worker {

// Slices [begin, end) of a chunk, see common/job/all_reduce.h.
struct SliceRange {
  uint32_t begin = 0, end = 0;

  bool operator==(const SliceRange&) const = default;
};

// A step of one node's work for one chunk and clock; a step that receives waits for its frame.
struct ReduceStep {
  enum class Kind {
    kSendSum,      // REDUCE: its sum so far of these slices
    kAddSum,       // the peer's REDUCE is added
    kUpdate,       // the sum is complete: the optimizer makes the slices' weights from it
    kSendWeights,  // GATHER
    kTakeWeights,  // the peer's GATHER
  };
  Kind kind = Kind::kUpdate;
  uint32_t peer = 0;  // position; unused by kUpdate
  SliceRange slices;

  bool operator==(const ReduceStep&) const = default;
};

// An all-reduce from one node's point of view. `position` counts the nodes in order of their first
// rank. Every plan has an update, except those of nodes that another one sums for.
struct ReducePlan {
  uint32_t slices = 1;  // number of slices per chunk
  std::vector<ReduceStep> steps;

  std::vector<uint32_t> Peers() const;  // positions, ascending
  SliceRange Own() const;               // the slices that it updates; empty: none
};

// RING (Patarasuk & Yuan 2009): node i passes slice k = i - 1 to node i + 1, which adds its own,
// and so on: after n - 1 steps the sum of slice i is on node i, added in the order i + 1, i + 2,
// ..., i. Its weights travel around the ring in the same way.
//
// HALVING_DOUBLING (Thakur et al. 2005): partners at distances 1, 2, 4, ... swap halves of what
// they hold, so that the order of addition is the balanced tree over the nodes if n is a power of
// two. Otherwise the first n - 2^k odd nodes give their sums to the node before them, and finally
// get the weights from it.
//
// A single node updates everything. REQUIRES: position < nodes.
ReducePlan MakeReducePlan(proto::AllReduce::Algorithm algorithm, uint32_t nodes, uint32_t position);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_REDUCE_PLAN_H_
