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

// A step of what one node does for one chunk and clock; a step that takes waits for its frame.
struct ReduceStep {
  enum class Kind {
    kSendSum,      // REDUCE: what it has summed so far of these slices
    kAddSum,       // the peer's REDUCE is added
    kUpdate,       // the sum is complete: the optimizer makes the slices' weights of it
    kSendWeights,  // GATHER
    kTakeWeights,  // the peer's GATHER
  };
  Kind kind = Kind::kUpdate;
  uint32_t peer = 0;  // position; not of kUpdate
  SliceRange slices;

  bool operator==(const ReduceStep&) const = default;
};

// An all-reduce from one node's point of view. `position` counts the nodes in order of their first
// rank. An update stands in every plan but those of nodes that another one sums for.
struct ReducePlan {
  uint32_t slices = 1;  // that a chunk is cut into
  std::vector<ReduceStep> steps;

  std::vector<uint32_t> Peers() const;  // positions, ascending
  SliceRange Own() const;               // what it updates; empty: nothing
};

// RING (Patarasuk & Yuan 2009): node i hands slice k = i - 1 on to node i + 1, which adds its own,
// and so on: after n - 1 steps the sum of slice i lies on node i, added in the order i + 1, i + 2,
// ..., i. Its weights go round the same way.
//
// HALVING_DOUBLING (Thakur et al. 2005): partners at distances 1, 2, 4, ... swap halves of what
// they hold, so that the order of addition is the balanced tree over the nodes where n is a power
// of two. Else the first n - 2^k odd nodes give their sums to the node before them, and get the
// weights from it in the end.
//
// One node alone updates everything. REQUIRES: position < nodes.
ReducePlan MakeReducePlan(proto::AllReduce::Algorithm algorithm, uint32_t nodes, uint32_t position);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_REDUCE_PLAN_H_
