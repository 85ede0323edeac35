#include "rows/row_range.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/require.h"
#include "rows/row_key.h"

namespace strata::rows {
namespace {

constexpr uint32_t kLargest = RowMemory::kLargestBlock;
constexpr uint32_t kLargestRows = RowMemory::kBlockRows[kLargest];

uint32_t LargestBlocks(uint32_t rows) { return (rows + kLargestRows - 1) / kLargestRows; }

bool IsFull(uint32_t index_size, uint32_t rows) {
  return 4 * rows > 3 * RowMemory::kIndexSlots[index_size];
}

}  // namespace

absl::StatusOr<RowMemory> RowMemory::Create(const RowLayout& layout, uint64_t ranges,
                                            uint32_t range_rows_max) {
  std::vector<BlockPool> pools;
  for (uint32_t size = 0; size < kBlockRows.size(); ++size) {
    const uint64_t of_range = size < kLargest ? 1 : LargestBlocks(range_rows_max);
    auto pool = BlockPool::Create(layout.row_bytes() * kBlockRows[size], ranges * of_range);
    if (!pool.ok()) return pool.status();
    pools.push_back(*std::move(pool));
  }
  for (const uint32_t slots : kIndexSlots) {
    auto pool = BlockPool::Create(slots * sizeof(uint32_t), ranges);
    if (!pool.ok()) return pool.status();
    pools.push_back(*std::move(pool));
  }
  const auto four = [&pools](size_t from) -> Pools {
    return {std::move(pools[from]), std::move(pools[from + 1]), std::move(pools[from + 2]),
            std::move(pools[from + 3])};
  };
  Pools blocks = four(0);
  return RowMemory(layout, std::move(blocks), four(4));
}

size_t RowMemory::memory_bytes() const {
  size_t bytes = 0;
  for (const BlockPool& pool : blocks_) bytes += pool.memory_bytes();
  for (const BlockPool& pool : indexes_) bytes += pool.memory_bytes();
  return bytes;
}

size_t RowMemory::MemoryBytesMax(const RowLayout& layout, size_t ranges, uint32_t range_rows_max) {
  // Smaller blocks and indexes that a range had before are not given back to the system.
  size_t rows = 0, slots = 0;
  for (uint32_t size = 0; size < kLargest; ++size) {
    rows += kBlockRows[size];
    if (range_rows_max <= kBlockRows[size]) break;
  }
  if (range_rows_max > kBlockRows[kLargest - 1])
    rows += LargestBlocks(range_rows_max) * kLargestRows;
  for (uint32_t size = 0; size < kIndexSlots.size(); ++size) {
    slots += kIndexSlots[size];
    if (!IsFull(size, range_rows_max)) break;
  }
  return ranges * (rows * layout.row_bytes() + slots * sizeof(uint32_t));
}

void RowRange::Place(const RowMemory& memory, uint64_t hash, uint32_t position) {
  uint32_t* const index = Index(memory);
  uint32_t slot = SlotOf(hash);
  while (index[slot] != kEmpty) slot = Next(slot);
  index[slot] = Slot(hash, position);
}

void RowRange::OpenIndex(RowMemory& memory, uint8_t index_size) {
  index_size_ = index_size;
  index_ = memory.indexes(index_size).Take();
  std::memset(Index(memory), 0, RowMemory::kIndexSlots[index_size] * sizeof(uint32_t));
  for (uint32_t position = 0; position < size_; ++position) {
    Place(memory, HashOf(memory.layout().seed, At(memory, position).id()), position);
  }
}

void RowRange::Grow(RowMemory& memory) {
  if (size_ == 0) {
    block_size_ = 0;
    blocks_[0] = memory.blocks(0).Take();
    OpenIndex(memory, 0);
    return;
  }
  if (block_size_ == kLargest) {
    if (size_ % kLargestRows == 0) blocks_[size_ / kLargestRows] = memory.blocks(kLargest).Take();
  } else if (size_ == RowMemory::kBlockRows[block_size_]) {
    const uint32_t block = memory.blocks(block_size_ + 1u).Take();
    std::memcpy(memory.RowAt(block_size_ + 1u, block, 0).at(), At(memory, 0).at(),
                size_ * memory.row_bytes());
    memory.blocks(block_size_).GiveBack(blocks_[0]);
    blocks_[0] = block;
    ++block_size_;
  }
  if (IsFull(index_size_, size_ + 1u)) {
    memory.indexes(index_size_).GiveBack(index_);
    OpenIndex(memory, index_size_ + 1);
  }
}

StoredRow RowRange::Add(RowMemory& memory, uint64_t hash, uint64_t id) {
  STRATA_REQUIRE(size_ < kRowsMax);
  Grow(memory);
  Place(memory, hash, size_);
  const StoredRow row = At(memory, size_++);
  row.id() = id;
  return row;
}

// Later slots of the same run move up into the empty one if their hashes allow it, so that no
// tombstones are needed.
void RowRange::Remove(RowMemory& memory, uint64_t hash, uint64_t id) {
  uint32_t hole = FindSlot(memory, hash, id);
  STRATA_REQUIRE(hole != kNoSlot);
  uint32_t* const index = Index(memory);
  const uint64_t seed = memory.layout().seed;
  const uint32_t position = PositionIn(index[hole]);
  for (uint32_t slot = Next(hole); index[slot] != kEmpty; slot = Next(slot)) {
    const uint32_t home = SlotOf(HashOf(seed, At(memory, PositionIn(index[slot])).id()));
    // A row may not move before its home slot.
    if (((slot - home) & mask()) < ((slot - hole) & mask())) continue;
    index[hole] = index[slot];
    hole = slot;
  }
  index[hole] = kEmpty;
  const uint16_t last = size_ - 1;
  if (position != last) {
    const StoredRow moved = At(memory, last);
    const uint64_t moved_hash = HashOf(seed, moved.id());
    index[FindSlot(memory, moved_hash, moved.id())] = Slot(moved_hash, position);
    std::memcpy(At(memory, position).at(), moved.at(), memory.row_bytes());
  }
  size_ = last;
  if (last == 0) {
    memory.indexes(index_size_).GiveBack(index_);
    memory.blocks(block_size_).GiveBack(blocks_[0]);
  } else if (block_size_ == kLargest && last % kLargestRows == 0) {
    memory.blocks(kLargest).GiveBack(blocks_[last / kLargestRows]);
  }
}

}  // namespace strata::rows
