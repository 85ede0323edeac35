#include "training/nn/device/image_feed.h"

#include <cstring>
#include <utility>

namespace strata::worker::on_device {

absl::StatusOr<std::unique_ptr<ImageFeed>> ImageFeed::Create(device::Device& device,
                                                             size_t values) {
  std::unique_ptr<ImageFeed> feed(new ImageFeed(values * sizeof(float)));
  for (Slot& slot : feed->slots_) {
    auto host = device.AllocatePinned(feed->bytes_, "a batch of images");
    if (!host.ok()) return host.status();
    slot.host = *std::move(host);
    auto memory = device.Allocate(feed->bytes_, "a batch of images");
    if (!memory.ok()) return memory.status();
    slot.memory = *std::move(memory);
    for (auto* event : {&slot.arrived, &slot.done}) {
      auto made = device.NewEvent();
      if (!made.ok()) return made.status();
      *event = *std::move(made);
    }
  }
  auto copies = device.NewStream(/*urgent=*/true);
  if (!copies.ok()) return copies.status();
  feed->copies_ = *std::move(copies);
  return feed;
}

absl::Status ImageFeed::Fetch(const float* images) {
  Slot& slot = slots_[next_];
  // Its pinned memory is being copied from until then.
  if (auto status = slot.arrived->Await(); !status.ok()) return status;
  std::memcpy(slot.host.get(), images, bytes_);
  if (auto status = copies_->Wait(*slot.done); !status.ok()) return status;
  if (auto status = copies_->Copy(slot.memory.get(), slot.host.get(), bytes_); !status.ok()) {
    return status;
  }
  if (auto status = copies_->Record(slot.arrived.get()); !status.ok()) return status;
  next_ = 1 - next_;
  fetched_ = images;
  return absl::OkStatus();
}

absl::StatusOr<const float*> ImageFeed::Use(const float* images, device::Stream& stream) {
  if (fetched_ != images) {
    if (auto status = Fetch(images); !status.ok()) return status;
  }
  fetched_ = nullptr;
  const Slot& slot = slots_[1 - next_];
  if (auto status = stream.Wait(*slot.arrived); !status.ok()) return status;
  return reinterpret_cast<const float*>(slot.memory.get());
}

absl::Status ImageFeed::Done(device::Stream& stream) {
  return stream.Record(slots_[1 - next_].done.get());
}

}  // namespace strata::worker::on_device
