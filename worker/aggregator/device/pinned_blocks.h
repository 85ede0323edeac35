#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_PINNED_BLOCKS_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_PINNED_BLOCKS_H_

#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/block_source.h"
#include "kernels/device/device.h"

namespace strata::worker {

// Host memory that a device's copies reach without a detour.
class PinnedBlocks final : public BlockSource {
 public:
  explicit PinnedBlocks(std::shared_ptr<device::Device> device) : device_(std::move(device)) {}

  std::byte* Take(size_t bytes) override;
  bool GiveBack(std::byte* block, size_t bytes) override;

 private:
  const std::shared_ptr<device::Device> device_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::byte*, device::Memory> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_PINNED_BLOCKS_H_
