#include "worker/client/device_publisher.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace strata::client {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);

}  // namespace

DevicePublisher::DevicePublisher(std::shared_ptr<device::Device> device, Publish publish)
    : device_(std::move(device)), publish_(std::move(publish)), thread_([this] { Run(); }) {}

DevicePublisher::~DevicePublisher() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
    items_.clear();
  }
  thread_.join();
}

absl::StatusOr<std::unique_ptr<device::Event>> DevicePublisher::TakeEvent() {
  {
    absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    if (!free_.empty()) {
      std::unique_ptr<device::Event> event = std::move(free_.back());
      free_.pop_back();
      return event;
    }
  }
  return device_->NewEvent();
}

absl::Status DevicePublisher::PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                                           uint64_t step) {
  absl::StatusOr<std::unique_ptr<device::Event>> event = TakeEvent();
  if (!event.ok()) return event.status();
  if (absl::Status status = stream->Record(event->get()); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  items_.push_back({*std::move(event), std::vector<ChunkId>(chunks.begin(), chunks.end()), step});
  return absl::OkStatus();
}

absl::Status DevicePublisher::Drain(const device::StillWanted& still_wanted) {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(this, &DevicePublisher::Idle), kLook)) {
        return status_;
      }
    }
    if (still_wanted == nullptr) continue;
    if (absl::Status status = still_wanted(); !status.ok()) return status;
  }
}

void DevicePublisher::Run() {
  while (true) {
    Item item;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &DevicePublisher::HasWork));
      if (ends_) return;
      item = std::move(items_.front());
      items_.pop_front();
      under_way_ = true;
    }
    absl::Status status = item.event->Await();
    if (status.ok()) status = publish_(item.chunks, item.step);
    absl::MutexLock lock(&mutex_);
    under_way_ = false;
    free_.push_back(std::move(item.event));
    if (status.ok()) continue;
    if (status_.ok()) status_ = std::move(status);
    items_.clear();  // after an error nothing more is published
  }
}

}  // namespace strata::client
