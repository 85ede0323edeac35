#ifndef STRATA_COMMON_WIRE_ROWS_PAYLOAD_H_
#define STRATA_COMMON_WIRE_ROWS_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"

namespace strata::wire {

// The payload of PUSHPULL and LOOKUP of rows: what a node pushes to one bucket, and which rows it
// wants of it, or of the shard. All integers are little-endian.
//
//   u32 pushed, u32 wanted    the number of sections of each kind
//   for each section, the pushed ones first, the tables of each kind ascending:
//     u32 table               its index in the job's layout
//     u32 rows                at least 1
//     u32 id_bytes            of its ids, without padding
//     f32 rate                pushed: the learning rate of the step, finite, >= 0; wanted: 0
//     u32 id_coding           0: u64 each; 1: LEB128 of the first id, then of each id less the id
//                             before less 1
//   for each section: its ids, which ascend, each once, below 2^63; zeros up to a multiple of 4
//   for each pushed section: its values, rows x the table's columns, fp32
//
// An answer has only the wanted rows' values, in the same order.

// One table's rows in a payload.
struct RowsSection {
  uint32_t table = 0;
  float rate = 0;
  absl::Span<const uint64_t> ids;
  const float* values = nullptr;  // pushed: ids.size() x columns
};

// Returns the payload. `columns`: of each of the job's tables. REQUIRES: as above.
Bytes EncodeRows(absl::Span<const RowsSection> pushed, absl::Span<const RowsSection> wanted,
                 absl::Span<const uint32_t> columns);

// A payload that has been checked.
class DecodedRows {
 public:
  DecodedRows(DecodedRows&&) = default;
  DecodedRows& operator=(DecodedRows&&) = default;

  // Refuses payloads whose pushed values are not as many as the header's `element_count`, and those
  // whose answer would be larger than a frame. Errors: InvalidArgument saying what is wrong, with
  // the table's index.
  static absl::StatusOr<DecodedRows> Decode(const Bytes& payload, uint64_t element_count,
                                            absl::Span<const uint32_t> columns);

  // Valid until this object ends, wherever it is moved.
  absl::Span<const RowsSection> pushed() const { return pushed_; }
  absl::Span<const RowsSection> wanted() const { return wanted_; }
  // The values of an answer.
  size_t wanted_values() const { return wanted_values_; }
  size_t payload_bytes() const { return payload_.size(); }
  // Returns the bytes of the payload and of the decoded copies.
  size_t memory_bytes() const {
    return payload_.size() + ids_.size() * sizeof(uint64_t) + unaligned_.size() * sizeof(float);
  }

 private:
  DecodedRows() = default;

  Bytes payload_;
  std::vector<uint64_t> ids_;     // of all sections
  std::vector<float> unaligned_;  // values, if those in the payload are not aligned
  std::vector<RowsSection> pushed_, wanted_;
  size_t wanted_values_ = 0;
};

}  // namespace strata::wire

#endif  // STRATA_COMMON_WIRE_ROWS_PAYLOAD_H_
