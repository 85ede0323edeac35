#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_PINNED_BLOCKS_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_PINNED_BLOCKS_H_

#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/buffer_pool.h"
#include "kernels/device/device.h"

namespace strata::worker {

// Host memory that a device can copy to and from directly: `source`'s, which may be shared with
// peers on this host, as long as it has some that can be pinned, and otherwise the device's own.
class PinnedBlocks final : public BlockSource {
 public:
  // `source` may be null.
  explicit PinnedBlocks(std::shared_ptr<device::Device> device,
                        std::shared_ptr<BlockSource> source = nullptr)
      : device_(std::move(device)), source_(std::move(source)) {}

  std::byte* Take(size_t bytes) override;
  bool GiveBack(std::byte* block, size_t bytes) override;

 private:
  // Pins a block of the source's; null: it has none, or it cannot be pinned.
  device::Memory TakeFromSource(size_t bytes);

  const std::shared_ptr<device::Device> device_;
  const std::shared_ptr<BlockSource> source_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::byte*, device::Memory> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_PINNED_BLOCKS_H_
