#ifndef STRATA_ROWS_ROW_TABLE_H_
#define STRATA_ROWS_ROW_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/image/rows_image.h"
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
  // Stores rows of a checkpoint. REQUIRES: they are of a table with these columns, and those of its
  // state; none is stored.
  Counts Restore(const TableRows& rows);

  // Copies of buckets' rows as they were at a clock, for a checkpoint, taken a few at a time while
  // the table goes on changing: until a row is taken, its first change leaves a copy of what it
  // was.

  // Copies the bucket as it is now. REQUIRES: updates so far had clocks below `clock`, later ones
  // have not; the bucket's last copy has been taken, or dropped by EndCuts.
  void BeginCut(uint32_t bucket, uint32_t clock);
  // Appends rows of the bucket's copy to `packed`, until that has `bytes_max` or more, or no rows
  // are left. Returns whether none are left. A row is given once.
  bool TakeCut(uint32_t bucket, size_t bytes_max, std::vector<std::byte>* packed);
  // Drops what has not been taken.
  void EndCuts();
  // Returns the bytes that copies of changed rows take.
  size_t cut_bytes() const;

 private:
  // The part of a bucket's copy that has not been taken: ranges from `next` up to `end`.
  struct Cut {
    uint64_t next = 0, end = 0;
    uint32_t clock = 0;
  };

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
  // Keeps a stored row, which is about to change, for the copy of its bucket.
  void KeepForCut(uint64_t hash, StoredRow row);

  const TableSpec spec_;
  const uint32_t bucket_bits_, range_bits_;
  const uint32_t range_rows_max_;
  RowMemory memory_;
  const AddressSpace range_space_;
  const absl::Span<RowRange> ranges_;
  uint64_t size_ = 0;
  uint64_t adds_ = 0;          // rows that were ever added
  size_t touched_ranges_ = 0;  // that have had rows
  std::vector<Cut> cuts_;      // by bucket; empty: there are none
  size_t open_cuts_ = 0;       // those that have ranges left
  // By id: rows as they were, packed.
  absl::flat_hash_map<uint64_t, std::unique_ptr<std::byte[]>> kept_;
};

// Returns the rows that RowTable::TakeCut has packed, by column. `table`: its index.
TableRows Unpack(const TableSpec& spec, uint32_t table, absl::Span<const std::byte> packed);

// Returns the most bytes that the packed rows of a range have.
uint64_t RangeBytesMax(const TableSpec& spec);
// Returns the most memory that a table takes where `buckets` of the job's 2^bucket_bits are.
// REQUIRES: spec.Validate().
uint64_t MemoryBytesMax(const TableSpec& spec, uint32_t bucket_bits, uint64_t buckets);

}  // namespace strata::rows

#endif  // STRATA_ROWS_ROW_TABLE_H_
