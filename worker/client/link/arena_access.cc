#include "worker/client/link/arena_access.h"

#include <cstring>
#include <utility>

#include "absl/status/statusor.h"

namespace strata::client {

absl::Status ArenaAccess::MoveTo(std::shared_ptr<device::Device> device) {
  absl::StatusOr<std::unique_ptr<device::Stream>> stream = device->NewStream(/*urgent=*/false);
  if (!stream.ok()) return stream.status();
  own_ = *std::move(stream);
  device_ = std::move(device);
  return absl::OkStatus();
}

absl::Status ArenaAccess::After(absl::Status status) {
  return status.ok() && stream_ == nullptr ? own_->Synchronize() : status;
}

absl::Status ArenaAccess::Copy(float* to, const float* from, size_t count) {
  if (device_ != nullptr) return After(InUse().Copy(to, from, count * sizeof(float)));
  std::memcpy(to, from, count * sizeof(float));
  return absl::OkStatus();
}

absl::Status ArenaAccess::Clear(absl::Span<float> values) {
  const size_t bytes = values.size() * sizeof(float);
  if (device_ != nullptr) return After(InUse().Fill(values.data(), 0, bytes));
  std::memset(values.data(), 0, bytes);
  return absl::OkStatus();
}

absl::Status ArenaAccess::Settle() {
  return device_ != nullptr ? InUse().Synchronize() : absl::OkStatus();
}

}  // namespace strata::client
