#ifndef STRATA_SERVER_SHARD_SUM_ACCUMULATOR_H_
#define STRATA_SERVER_SHARD_SUM_ACCUMULATOR_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "compression/checked_payload.h"
#include "kernels/kernels.h"
#include "proto/job.pb.h"

namespace strata::server {

// A vector of a chunk's elements as it came: decoded when it is added, and not before.
struct Addend {
  Addend() = default;
  Addend(Bytes floats) : bytes(std::move(floats)) {}  // NOLINT: fp32 is its own encoding
  Addend(Bytes payload, const kernels::CheckedPayload& checked)
      : bytes(std::move(payload)), encoded(checked) {}

  bool empty() const { return bytes.empty(); }
  // Returns it as fp32, in memory of the pool where it is encoded.
  Bytes Decoded(BufferPool& pool) const;

  Bytes bytes;
  std::optional<kernels::CheckedPayload> encoded;  // reads `bytes`; none: they are fp32
  // fp32 that may hold NaN or infinity: a sum finds that in its own pass over them.
  bool unchecked = false;
};

// What has come of the leaves [begin, end), and is added already where those are several.
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
  // Returns the sum, as fp32, over the leaves that came, those that did not come counting as empty;
  // it is empty itself where no leaf had a value. Leaves the accumulator empty. REQUIRES: Check()
  // has been called since the last Add.
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

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SUM_ACCUMULATOR_H_
