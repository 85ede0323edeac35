#include "worker/aggregator/device/pinned_blocks.h"

#include <utility>

namespace strata::worker {

// It is unpinned before the source gets it back, which may clear its pages.
device::Memory PinnedBlocks::TakeFromSource(size_t bytes) {
  std::byte* const block = source_ == nullptr ? nullptr : source_->Take(bytes);
  if (block == nullptr) return nullptr;
  absl::StatusOr<device::Memory> pinned = device_->Pin(block, bytes);
  if (!pinned.ok()) {
    source_->GiveBack(block, bytes);
    return nullptr;
  }
  return device::Memory(
      block, [source = source_, pinned = *std::move(pinned), bytes](std::byte* at) mutable {
        pinned.reset();
        source->GiveBack(at, bytes);
      });
}

std::byte* PinnedBlocks::Take(size_t bytes) {
  device::Memory memory = TakeFromSource(bytes);
  if (memory == nullptr) {
    absl::StatusOr<device::Memory> own = device_->AllocatePinned(bytes, "send buffers");
    if (!own.ok()) return nullptr;  // the allocator's memory works, too
    memory = *std::move(own);
  }
  std::byte* const block = memory.get();
  const absl::MutexLock lock(&mutex_);
  taken_.emplace(block, std::move(memory));
  return block;
}

bool PinnedBlocks::GiveBack(std::byte* block, size_t) {
  device::Memory memory;
  const absl::MutexLock lock(&mutex_);
  const auto found = taken_.find(block);
  if (found == taken_.end()) return false;
  memory = std::move(found->second);
  taken_.erase(found);
  return true;
}

}  // namespace strata::worker
