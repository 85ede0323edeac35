#ifndef STRATA_SERVER_SHARD_TREE_ACCUMULATOR_H_
#define STRATA_SERVER_SHARD_TREE_ACCUMULATOR_H_

#include <cstddef>
#include <map>
#include <memory>

#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "kernels/kernels.h"

namespace strata::server {

// The sum of one chunk over the nodes at one clock, along the fixed tree of kernels::SumTreeSplit.
// Leaves come in any order and the result has the same bits: two subtrees are added, and their
// memory is freed, as soon as both are complete. At most half of the leaves, rounded up, are held
// at a time besides the one in hand.
//
// Threads: one.
class TreeAccumulator {
 public:
  // `kernels` and `pool` outlive it. REQUIRES: leaves >= 1.
  TreeAccumulator(const kernels::Kernels& kernels, BufferPool& pool, size_t leaves,
                  size_t elements);

  // Leaf `leaf` is `value`: fp32, `elements` of them; an empty value adds nothing.
  // REQUIRES: each leaf at most once.
  void Add(size_t leaf, Bytes value);

  // The sum over the leaves that came, those that did not come counting as empty; empty itself
  // where no leaf had a value. Leaves the accumulator empty.
  Bytes Finish();

  // Buffers of `elements` that are held now, received ones included.
  size_t held() const;

 private:
  // A complete subtree, or one leaf: leaves [key of parts_, end).
  struct Part {
    size_t end = 0;
    Bytes value;
    std::shared_ptr<float> own;  // the memory of `value` where it may be written to
  };

  Part Combine(Part left, Part right);
  Part Fold(size_t begin, size_t end);

  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  size_t leaves_;
  size_t elements_;
  std::map<size_t, Part> parts_;  // by first leaf; disjoint
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_TREE_ACCUMULATOR_H_
