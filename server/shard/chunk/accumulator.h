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

// A vector of a chunk's elements as received; it is decoded when it is added.
struct Addend {
  Addend() = default;
  Addend(Bytes floats) : bytes(std::move(floats)) {}  // NOLINT: fp32 is its own encoding
  Addend(Bytes payload, const numerics::CheckedPayload& checked)
      : bytes(std::move(payload)), encoded(checked) {}

  bool empty() const { return bytes.empty(); }
  // Returns it as fp32; memory for decoding comes from the pool.
  Bytes Decoded(BufferPool& pool) const;

  Bytes bytes;
  std::optional<numerics::CheckedPayload> encoded;  // decodes `bytes`; absent: they are fp32
  // The fp32 values may include NaN or infinity: the sum checks them in its own pass.
  bool unchecked = false;
};

// The leaves [begin, end) that have come; several are summed already.
struct SumPart {
  size_t begin = 0, end = 0;
  Addend value;
};

// The sum of one chunk over the nodes at one clock, independent of the order of arrival.
//
// Threads: one.
class Accumulator {
 public:
  virtual ~Accumulator() = default;

  // Sets leaf `leaf` to `value`: all elements of the chunk; an empty value adds nothing. Returns
  // the leaves, of this call or earlier ones, that turned out to hold NaN or infinity. These count
  // as not received, and may come again.
  // REQUIRES: a leaf that has not come, or was returned as bad.
  virtual std::vector<size_t> Add(size_t leaf, Addend value) = 0;
  // Checks all leaves that have not been checked; returns the bad ones, as Add.
  virtual std::vector<size_t> Check() = 0;
  // Returns the sum, as fp32, of the leaves that came; others count as empty. The sum is empty if
  // no leaf had a value. Leaves the accumulator empty. REQUIRES: Check() has been called since the
  // last Add.
  virtual Bytes Finish() = 0;
  // Returns the content as disjoint parts, in order. An accumulator of the same kind can continue
  // from them with the same bits. Leaves that came empty may be omitted if that changes nothing.
  virtual std::vector<SumPart> Parts() = 0;
  // Continues from the parts of another one. Errors: InvalidArgument naming leaves that cannot be
  // parts of such a sum. REQUIRES: no leaf has come.
  virtual absl::Status Restore(std::vector<SumPart> parts) = 0;
  // The number of buffers held now, including received ones, and their bytes.
  virtual size_t held() const = 0;
  virtual size_t held_bytes() const = 0;
};

// `kernels` and `pool` outlive it. REQUIRES: leaves >= 1.
std::unique_ptr<Accumulator> CreateAccumulator(proto::Addition::Order order,
                                               const kernels::Kernels& kernels, BufferPool& pool,
                                               size_t leaves, size_t elements);
// Returns the maximum number of buffers held for one chunk, not counting the one being added.
size_t HeldMax(proto::Addition::Order order, size_t leaves);

// The sum along the fixed tree of kernels::SumTreeSplit. Leaves come in any order and the result
// has the same bits: two subtrees are added, and their memory is freed, as soon as both are
// complete. At most half of the leaves, rounded up, are held at a time, not counting the one being
// added. Two unchecked leaves are checked by their sum; a leaf that is added to a sum, whose memory
// the new sum reuses, is checked first.
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
  // A complete subtree, or one leaf: leaves [key of parts_, end). Only leaves can be unchecked.
  struct Part {
    size_t end = 0;
    Addend value;
    std::shared_ptr<float> own;  // the memory of `value` if it may be overwritten
    bool finite = false;         // shown by the sum
  };

  // Returns whether the leaf has come and was not found bad.
  bool Has(size_t leaf) const;
  // Returns whether the part is a leaf that is not finite. Checks an unchecked leaf once.
  bool IsBad(Part* part) const;
  // Returns false if the sum is not finite.
  bool Sum(const Addend& left, const Addend& right, float* out) const;
  Part Combine(Part left, Part right);
  Part Fold(size_t begin, size_t end);

  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  size_t leaves_;
  size_t elements_;
  std::map<size_t, Part> parts_;  // by first leaf; disjoint
};

// The sum in the order of a ring of the same nodes: slice k of the chunk (common/job/all_reduce.h)
// is summed from leaf k + 1 around to leaf k. Each leaf starts a slice, so all are held until the
// last one has come.
class RingAccumulator final : public Accumulator {
 public:
  RingAccumulator(const kernels::Kernels& kernels, BufferPool& pool, size_t leaves,
                  size_t elements);

  // Checks the leaf at once: nothing is added before the last leaf has come.
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
