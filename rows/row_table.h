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
#include "rows/initial_values.h"
#include "rows/row_key.h"
#include "rows/row_range.h"
#include "rows/row_update.h"

namespace strata::rows {

// An embedding table: rows of `columns` weights, by id.
struct TableSpec {
  std::string name;       // 1 to 256 bytes
  uint32_t columns = 0;   // 1 to 4096
  uint64_t capacity = 0;  // rows: 1 to 2^38
  uint64_t seed = 0;
  InitialValues initial;
  RowOptimizer optimizer;

  // Errors: InvalidArgument naming the table and the field.
  absl::Status Validate() const;
};

// The rows of a table in one bucket. A row is stored when it is first pushed: until then it has its
// initial values, so lookups store nothing.
//
// The bucket's share of `capacity` is divided into ranges of hashes, of 640 to 1,280 rows each.
// Since hashes spread unevenly a range may hold more than its share, by 6 standard deviations: so
// the table may hold up to a fifth more. A new row that is pushed to a full range is refused, and
// keeps its initial values.
//
// A pure state machine. Threads: one at a time, or several that only look up.
class RowTable {
 public:
  // `bucket_bits`: the job has 2^bucket_bits buckets. Errors: those of TableSpec::Validate.
  static absl::StatusOr<std::unique_ptr<RowTable>> Create(const TableSpec& spec,
                                                          uint32_t bucket_bits);

  const TableSpec& spec() const { return spec_; }
  // fp32 values of optimizer state in a row.
  uint32_t state_columns() const { return memory_.layout().state; }
  uint64_t size() const { return size_; }  // stored rows
  size_t memory_bytes() const;
  // The most that memory_bytes() can become.
  size_t memory_bytes_max() const;
  // Returns the ids of all stored rows, ascending.
  std::vector<uint64_t> StoredIds() const;

  // Writes each row's weights to `to`: ids.size() x columns values. Ids may be repeated. REQUIRES:
  // all ids are of this bucket.
  void Lookup(absl::Span<const uint64_t> ids, float* to) const;
  // Writes each row's optimizer state to `to`: ids.size() x state_columns() values. Errors:
  // NotFound naming an id that is not stored. REQUIRES: as in Lookup.
  absl::Status ReadState(absl::Span<const uint64_t> ids, float* to) const;

  // How many rows a call updated, stored and refused.
  struct Counts {
    uint64_t updated = 0;
    uint64_t stored = 0;   // those among `updated` that were not stored before
    uint64_t refused = 0;  // their ranges are full
  };
  // Makes one update of each row. `gradient_sums`: ids.size() x columns values. `clock`: the
  // step's. REQUIRES: ids ascend, and are of this bucket.
  Counts Update(absl::Span<const uint64_t> ids, const float* gradient_sums, const RowStep& step,
                uint32_t clock);
  // Stores rows with the given weights and state. Null `state`: that of a row before its first
  // push. REQUIRES: as in Update.
  Counts Store(absl::Span<const uint64_t> ids, const float* weights, const float* state,
               uint32_t clock);

 private:
  RowTable(const TableSpec& spec, uint32_t bucket_bits, uint32_t range_bits,
           uint32_t range_rows_max, RowMemory memory, AddressSpace range_space);

  const RowRange& RangeFor(uint64_t hash) const {
    return ranges_[RangeOf(hash, bucket_bits_, range_bits_)];
  }
  RowRange& RangeFor(uint64_t hash) { return ranges_[RangeOf(hash, bucket_bits_, range_bits_)]; }
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
  uint64_t adds_ = 0;  // rows that were ever added
};

}  // namespace strata::rows

#endif  // STRATA_ROWS_ROW_TABLE_H_
