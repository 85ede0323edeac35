#ifndef STRATA_ROWS_ROW_RANGE_H_
#define STRATA_ROWS_ROW_RANGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "rows/block_pool.h"

namespace strata::rows {

// Fetches a cache line that is read soon.
inline void Prefetch(const void* at) {
  __builtin_prefetch(at);
  // Else gcc before 14 takes callers for pure functions, and drops calls whose result it does not
  // see: its bug 109985.
  asm volatile("");
}

// What all rows of a table have in common.
struct RowLayout {
  uint64_t seed = 0;     // the table's
  uint32_t columns = 0;  // weights
  uint32_t state = 0;    // fp32 values of optimizer state

  // A row is an id of 8 bytes, a clock of 4, a count of 2, flags of 2, the weights and the state.
  static constexpr size_t kHeadBytes = 16;
  // A multiple of 8.
  size_t row_bytes() const {
    return (kHeadBytes + (size_t{columns} + state) * sizeof(float) + 7) / 8 * 8;
  }
};

// A stored row, in place. Valid until a row is added to its range or removed from it.
class StoredRow {
 public:
  explicit StoredRow(std::byte* at) : at_(at) {}

  bool exists() const { return at_ != nullptr; }
  std::byte* at() const { return at_; }
  uint64_t& id() const { return *reinterpret_cast<uint64_t*>(at_); }
  // The clock of the last update.
  uint32_t& clock() const { return *reinterpret_cast<uint32_t*>(at_ + 8); }
  // The number of pushes; it stays at 65535.
  uint16_t& pushes() const { return *reinterpret_cast<uint16_t*>(at_ + 12); }
  // Not used yet, 0.
  uint16_t& flags() const { return *reinterpret_cast<uint16_t*>(at_ + 14); }
  float* weights() const { return reinterpret_cast<float*>(at_ + RowLayout::kHeadBytes); }
  float* state(const RowLayout& layout) const { return weights() + layout.columns; }

 private:
  std::byte* at_;
};

// The memory of all ranges of a table. A range begins with small blocks and a small index, so that
// a table with few rows takes little memory whatever its capacity is.
class RowMemory {
 public:
  // Blocks of a range with at most 2, 8 or 32 rows, and those of larger ones.
  static constexpr std::array<uint32_t, 4> kBlockRows = {2, 8, 32, 128};
  static constexpr uint32_t kLargestBlock = 3;
  // Slots of indexes, which are at most 3/4 full.
  static constexpr std::array<uint32_t, 4> kIndexSlots = {8, 64, 512, 2048};

  // For `ranges` of at most `range_rows_max` rows each. Errors: those of BlockPool::Create.
  static absl::StatusOr<RowMemory> Create(const RowLayout& layout, uint64_t ranges,
                                          uint32_t range_rows_max);

  const RowLayout& layout() const { return layout_; }
  size_t row_bytes() const { return row_bytes_; }
  BlockPool& blocks(uint32_t size) { return blocks_[size]; }
  BlockPool& indexes(uint32_t size) { return indexes_[size]; }
  StoredRow RowAt(uint32_t size, uint32_t block, uint32_t row) const {
    return StoredRow(blocks_[size].At(block) + row * row_bytes_);
  }
  uint32_t* IndexAt(uint32_t size, uint32_t index) const {
    return reinterpret_cast<uint32_t*>(indexes_[size].At(index));
  }
  size_t memory_bytes() const;
  // The most that memory_bytes() becomes.
  static size_t MemoryBytesMax(const RowLayout& layout, size_t ranges, uint32_t range_rows_max);

 private:
  using Pools = std::array<BlockPool, 4>;

  RowMemory(const RowLayout& layout, Pools blocks, Pools indexes)
      : layout_(layout),
        row_bytes_(layout.row_bytes()),
        blocks_(std::move(blocks)),
        indexes_(std::move(indexes)) {}

  RowLayout layout_;
  size_t row_bytes_;
  Pools blocks_, indexes_;  // by size
};

// The rows of a table whose hashes have the same high bits: about 1,000 in a full table. Rows are
// packed into blocks. An index finds them: open addressing with linear probing, at most 3/4 full. A
// slot holds 16 bits of the row's hash and its position. The range is the unit of copies, of
// checkpoints and of the table's limits.
//
// Threads: one at a time, or several that only read.
class RowRange {
 public:
  static constexpr uint32_t kRowsMax = 1536;

  uint32_t size() const { return size_; }

  // Fetch into the cache what a later Find reads: first the index, then the row.
  void PrefetchIndex(const RowMemory& memory, uint64_t hash) const {
    if (size_ > 0) Prefetch(Index(memory) + SlotOf(hash));
  }
  // Returns the first row whose slot has the hash's bits: most likely the one, if it is stored.
  StoredRow PrefetchRow(const RowMemory& memory, uint64_t hash) const {
    if (size_ == 0) return StoredRow(nullptr);
    const uint32_t* const index = Index(memory);
    for (uint32_t slot = SlotOf(hash); index[slot] != kEmpty; slot = Next(slot)) {
      if (!Matches(index[slot], hash)) continue;
      const StoredRow row = At(memory, PositionIn(index[slot]));
      const std::byte* const begin = row.at();
      const size_t bytes = memory.row_bytes();
      for (size_t at = 0; at < bytes; at += kLineBytes) Prefetch(begin + at);
      Prefetch(begin + bytes - 1);
      return row;
    }
    return StoredRow(nullptr);
  }

  // Returns the row, which does not exist if none is stored. `hash`: HashOf of the id.
  StoredRow Find(const RowMemory& memory, uint64_t hash, uint64_t id) const {
    const uint32_t slot = FindSlot(memory, hash, id);
    return slot == kNoSlot ? StoredRow(nullptr) : At(memory, PositionIn(Index(memory)[slot]));
  }
  // Adds a row. Its id is set, all else is undefined. Other rows of the range may move. REQUIRES:
  // it is not stored, and size() < kRowsMax.
  StoredRow Add(RowMemory& memory, uint64_t hash, uint64_t id);
  // Removes a stored row. The last row takes its place.
  void Remove(RowMemory& memory, uint64_t hash, uint64_t id);

  // The rows in storage order, which depends on the order of additions and removals.
  StoredRow At(const RowMemory& memory, uint32_t position) const {
    constexpr uint32_t kRows = RowMemory::kBlockRows[RowMemory::kLargestBlock];
    return memory.RowAt(block_size_, blocks_[position / kRows], position % kRows);
  }

 private:
  static constexpr size_t kLineBytes = 64;
  static constexpr uint32_t kEmpty = 0;
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  // A slot: the low 16 bits of the hash, above the position + 1.
  static uint32_t Slot(uint64_t hash, uint32_t position) {
    return static_cast<uint32_t>(hash & 0xffff) << 16 | (position + 1);
  }
  static bool Matches(uint32_t slot, uint64_t hash) { return slot >> 16 == (hash & 0xffff); }
  static uint32_t PositionIn(uint32_t slot) { return (slot & 0xffff) - 1; }

  uint32_t* Index(const RowMemory& memory) const { return memory.IndexAt(index_size_, index_); }
  uint32_t mask() const { return RowMemory::kIndexSlots[index_size_] - 1; }
  uint32_t SlotOf(uint64_t hash) const { return static_cast<uint32_t>(hash >> 16) & mask(); }
  uint32_t Next(uint32_t slot) const { return (slot + 1) & mask(); }
  uint32_t FindSlot(const RowMemory& memory, uint64_t hash, uint64_t id) const {
    if (size_ == 0) return kNoSlot;
    const uint32_t* const index = Index(memory);
    for (uint32_t slot = SlotOf(hash); index[slot] != kEmpty; slot = Next(slot)) {
      if (Matches(index[slot], hash) && At(memory, PositionIn(index[slot])).id() == id) return slot;
    }
    return kNoSlot;
  }
  void Place(const RowMemory& memory, uint64_t hash, uint32_t position);
  void OpenIndex(RowMemory& memory, uint8_t index_size);
  // Makes room for one more row.
  void Grow(RowMemory& memory);

  // All zeros is an empty range: a table's ranges lie in fresh memory of the system.
  alignas(kLineBytes) std::array<uint32_t, kRowsMax / 128> blocks_ = {};
  uint32_t index_ = 0;
  uint16_t size_ = 0;  // rows; an empty range has neither blocks nor an index
  uint8_t index_size_ = 0, block_size_ = 0;
};

}  // namespace strata::rows

#endif  // STRATA_ROWS_ROW_RANGE_H_
