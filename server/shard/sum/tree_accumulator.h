#ifndef STRATA_SERVER_SHARD_SUM_TREE_ACCUMULATOR_H_
#define STRATA_SERVER_SHARD_SUM_TREE_ACCUMULATOR_H_

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "server/shard/sum/accumulator.h"

namespace strata::server {

// The sum along the fixed tree of kernels::SumTreeSplit.
// Leaves come in any order and the result has the same bits: two subtrees are added, and their
// memory is freed, as soon as both are complete. At most half of the leaves, rounded up, are held
// at a time besides the one in hand. Two unchecked leaves that are added are checked by their sum;
// a leaf that meets a sum, whose memory the new sum takes, is checked before.
class TreeAccumulator final : public Accumulator {
 public:
  TreeAccumulator(const kernels::Kernels& kernels, BufferPool& pool, size_t leaves,
                  size_t elements);

  std::vector<size_t> Add(size_t leaf, Addend value) override;
  std::vector<size_t> Check() override;
  Bytes Finish() override;
  std::vector<SumPart> Parts() override;
  absl::Status Restore(std::vector<SumPart> parts) override;
  size_t held() const override;
  size_t held_bytes() const override;

 private:
  // A complete subtree, or one leaf: leaves [key of parts_, end). Only a leaf can be unchecked.
  struct Part {
    size_t end = 0;
    Addend value;
    std::shared_ptr<float> own;  // the memory of `value` where it may be written to
    bool finite = false;         // known from the sum that it is
  };

  // Whether the leaf has come, and was not found bad.
  bool Has(size_t leaf) const;
  // Whether the part is a leaf that is not finite. Looks at what is unchecked, once.
  bool IsBad(Part* part) const;
  // False if the sum turned out not to be finite.
  bool Sum(const Addend& left, const Addend& right, float* out) const;
  Part Combine(Part left, Part right);
  Part Fold(size_t begin, size_t end);

  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  size_t leaves_;
  size_t elements_;
  std::map<size_t, Part> parts_;  // by first leaf; disjoint
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SUM_TREE_ACCUMULATOR_H_
