#ifndef STRATA_TRAINING_NN_DEVICE_IMAGE_FEED_H_
#define STRATA_TRAINING_NN_DEVICE_IMAGE_FEED_H_

#include <array>
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace strata::worker::on_device {

// Brings batches of images to the device, one ahead of the one in use, through pinned memory and in
// a stream of its own.
//
// Threads: one.
class ImageFeed {
 public:
  // A feed of so many fp32 values a batch. The device outlives this.
  static absl::StatusOr<std::unique_ptr<ImageFeed>> Create(device::Device& device, size_t values);

  // Begins to bring a batch, which is copied before this returns. May wait for one to have gone.
  absl::Status Fetch(const float* images);
  // The place on the device of the batch that was fetched from `images`, or is now. What `stream`
  // does from now on finds it there.
  absl::StatusOr<const float*> Use(const float* images, device::Stream& stream);
  // What `stream` has queued is the last that reads it.
  absl::Status Done(device::Stream& stream);

 private:
  struct Slot {
    device::Memory host, memory;
    std::unique_ptr<device::Event> arrived, done;
  };

  explicit ImageFeed(size_t bytes) : bytes_(bytes) {}

  const size_t bytes_;
  std::array<Slot, 2> slots_;
  std::unique_ptr<device::Stream> copies_;  // ends before its memory
  size_t next_ = 0;                         // slot that is fetched into
  const float* fetched_ = nullptr;          // into the other one, and not used yet
};

}  // namespace strata::worker::on_device

#endif  // STRATA_TRAINING_NN_DEVICE_IMAGE_FEED_H_
