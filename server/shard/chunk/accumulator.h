#ifndef STRATA_SERVER_SHARD_CHUNK_ACCUMULATOR_H_
#define STRATA_SERVER_SHARD_CHUNK_ACCUMULATOR_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "kernels/kernels.h"
#include "numerics/checked_payload.h"
#include "proto/job.pb.h"

namespace strata::server {

// A vector of a chunk's elements as it came: it is decoded when it is added, and not before.
struct Addend {
  Addend() = default;
  Addend(Bytes floats) : bytes(std::move(floats)) {}  // NOLINT: fp32 is its own encoding
  Addend(Bytes payload, const numerics::CheckedPayload& checked)
      : bytes(std::move(payload)), encoded(checked) {}

  bool empty() const { return bytes.empty(); }
  // Returns it as fp32, in memory of the pool where it is encoded.
  Bytes Decoded(BufferPool& pool) const;

  Bytes bytes;
  std::optional<numerics::CheckedPayload> encoded;  // reads `bytes`; none: they are fp32
  // fp32 that may hold NaN or infinity: a sum finds that in its own pass over them.
  bool unchecked = false;
};

// The leaves [begin, end) that have come, added already if they are several.
struct SumPart {
  size_t begin = 0, end = 0;
  Addend value;
};

// The sum of one chunk over the nodes at one clock, in an order that does not depend on the order
// in which they come.
//
// Threads: one.
class Accumulator {
 public:
  virtual ~Accumulator() = default;

  // Leaf `leaf` is `value`: all elements of the chunk; an empty value adds nothing. Returns the
  // leaves, of this call or earlier ones, that turned out to hold NaN or infinity: they are as if
  // they had not come, and may come again.
  // REQUIRES: a leaf that has not come, or has been named as bad.
  virtual std::vector<size_t> Add(size_t leaf, Addend value) = 0;
  // Returns the same, for all leaves that came and have not been looked at.
  virtual std::vector<size_t> Check() = 0;
  // Returns the sum, as fp32, over the leaves that came; others count as empty. The sum is empty if
  // no leaf had a value. Leaves the accumulator empty. REQUIRES: Check() has been called since the
  // last Add.
  virtual Bytes Finish() = 0;
  // Returns what is held: disjoint parts, in order. An accumulator of the same kind goes on from
  // them with the same bits. Leaves that came empty may be left out where that changes nothing.
  virtual std::vector<SumPart> Parts() = 0;
  // Goes on from the parts of another one. Errors: InvalidArgument naming leaves that are no part
  // of such a sum. REQUIRES: no leaf has come.
  virtual absl::Status Restore(std::vector<SumPart> parts) = 0;
  // Buffers that are held now, received ones included, and their bytes.
  virtual size_t held() const = 0;
  virtual size_t held_bytes() const = 0;
};

// `kernels` and `pool` outlive it. REQUIRES: leaves >= 1.
std::unique_ptr<Accumulator> CreateAccumulator(proto::Addition::Order order,
                                               const kernels::Kernels& kernels, BufferPool& pool,
                                               size_t leaves, size_t elements);
// Returns the most buffers that are held at a time for one chunk, besides the one in hand.
size_t HeldMax(proto::Addition::Order order, size_t leaves);

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

  // Returns whether the leaf has come, and was not found bad.
  bool Has(size_t leaf) const;
  // Returns whether the part is a leaf that is not finite. Checks what is unchecked, once.
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

// The sum as a ring of the same nodes would make it: slice k of the chunk
// (common/job/all_reduce.h) is added from leaf k + 1 on, round to leaf k. Each leaf is the
// first of a slice, so that all are held until the last one is there.
class RingAccumulator final : public Accumulator {
 public:
  RingAccumulator(const kernels::Kernels& kernels, BufferPool& pool, size_t leaves,
                  size_t elements);

  // Checks the leaf at once: nothing is added before the last leaf is there.
  std::vector<size_t> Add(size_t leaf, Addend value) override;
  std::vector<size_t> Check() override { return {}; }
  Bytes Finish() override;
  std::vector<SumPart> Parts() override;
  absl::Status Restore(std::vector<SumPart> parts) override;
  size_t held() const override;
  size_t held_bytes() const override { return held() * elements_ * sizeof(float); }

 private:
  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  const size_t elements_;
  std::vector<Bytes> leaves_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_ACCUMULATOR_H_
