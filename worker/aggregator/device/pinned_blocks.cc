#include "worker/aggregator/device/pinned_blocks.h"

#include <utility>

namespace strata::worker {

std::byte* PinnedBlocks::Take(size_t bytes) {
  absl::StatusOr<device::Memory> memory = device_->AllocatePinned(bytes, "send buffers");
  if (!memory.ok()) return nullptr;  // the allocator's memory works, too
  std::byte* const block = memory->get();
  const absl::MutexLock lock(&mutex_);
  taken_.emplace(block, *std::move(memory));
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
