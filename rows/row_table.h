#ifndef STRATA_ROWS_ROW_TABLE_H_
#define STRATA_ROWS_ROW_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rows/block_pool.h"
#include "rows/row_key.h"
#include "rows/row_range.h"
#include "rows/row_update.h"
#include "rows/table_spec.h"

namespace strata::rows {

// The rows of a table in this process: all of them, or those in some of the job's buckets. A row is
// stored when it is first pushed: until then it has its initial values, so lookups store nothing.
//
// The table is divided into ranges of hashes, of 640 to 1,280 rows each at its capacity, or less if
// each bucket has a range of its own then. Since hashes spread unevenly a range may hold more than
// its share, by 6 standard deviations: so the table may hold up to a fifth more, and a small one in
// many buckets several times as much. A new row that is pushed to a full range is refused, and
// keeps its initial values.
//
// A pure state machine. Threads: one at a time, or several that only look up.
class RowTable {
 public:
  // `bucket_bits`: the job has 2^bucket_bits buckets. No range has rows of two, so what becomes of
  // a row does not depend on which buckets are here. Errors: those of TableSpec::Validate,
  // ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RowTable>> Create(const TableSpec& spec,
                                                          uint32_t bucket_bits);

  const TableSpec& spec() const { return spec_; }
  // fp32 values of optimizer state in a row.
  uint32_t state_columns() const { return memory_.layout().state; }
  uint64_t size() const { return size_; }  // stored rows
  size_t memory_bytes() const;
  // Returns the ids of all stored rows, ascending.
  std::vector<uint64_t> StoredIds() const;

  // Writes each row's weights to `to`: ids.size() x columns values. Ids may be repeated.
  void Lookup(absl::Span<const uint64_t> ids, float* to) const;
  // Writes each row's optimizer state to `to`: ids.size() x state_columns() values. Errors:
  // NotFound naming an id that is not stored.
  absl::Status ReadState(absl::Span<const uint64_t> ids, float* to) const;

  // How many rows a call updated, stored and refused.
  struct Counts {
    uint64_t updated = 0;
    uint64_t stored = 0;   // those among `updated` that were not stored before
    uint64_t refused = 0;  // their ranges are full
  };
  // Makes one update of each row. `gradient_sums`: ids.size() x columns values. `clock`: the
  // step's. REQUIRES: ids ascend.
  Counts Update(absl::Span<const uint64_t> ids, const float* gradient_sums, const RowStep& step,
                uint32_t clock);
  // Stores rows with the given weights and state. Null `state`: that of a row before its first
  // push. REQUIRES: as in Update.
  Counts Store(absl::Span<const uint64_t> ids, const float* weights, const float* state,
               uint32_t clock);

 private:
  RowTable(const TableSpec& spec, uint32_t bucket_bits, uint32_t range_bits,
           uint32_t range_rows_max, RowMemory memory, AddressSpace range_space);

  const RowRange& RangeFor(uint64_t hash) const { return ranges_[HighBits(hash, range_bits_)]; }
  RowRange& RangeFor(uint64_t hash) { return ranges_[HighBits(hash, range_bits_)]; }
  // Calls `each` with the place of an id, its hash and its row, which may not exist. It takes one
  // id after the other, while the memory of the next rows is fetched. `each` removes no row.
  template <typename Each>
  void ForRows(absl::Span<const uint64_t> ids, const Each& each) const;
  // Returns a new row that has only an id, or none if its range is full.
  StoredRow Add(uint64_t hash, uint64_t id, Counts& counts);

  const TableSpec spec_;
  const uint32_t bucket_bits_, range_bits_;
  const uint32_t range_rows_max_;
  RowMemory memory_;
  const AddressSpace range_space_;
  const absl::Span<RowRange> ranges_;
  uint64_t size_ = 0;
  uint64_t adds_ = 0;          // rows that were ever added
  size_t touched_ranges_ = 0;  // that have had rows
};

// Returns the most memory that a table takes where `buckets` of the job's 2^bucket_bits are.
// REQUIRES: spec.Validate().
uint64_t MemoryBytesMax(const TableSpec& spec, uint32_t bucket_bits, uint64_t buckets);

}  // namespace strata::rows

#endif  // STRATA_ROWS_ROW_TABLE_H_
