#include "worker/client/c/client_calls.h"

#include <utility>

#include "common/diverged.h"
#include "worker/contract/launch.h"

namespace strata::client {

std::string& ErrorText() {
  thread_local std::string text;
  return text;
}

bool& ErrorHasDiverged() {
  thread_local bool has_diverged = false;
  return has_diverged;
}

namespace {

strata_code CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return STRATA_OK;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return STRATA_INVALID_ARGUMENT;
    case absl::StatusCode::kFailedPrecondition:
      return STRATA_FAILED_PRECONDITION;
    case absl::StatusCode::kNotFound:
      return STRATA_NOT_FOUND;
    case absl::StatusCode::kResourceExhausted:
      return STRATA_RESOURCE_EXHAUSTED;
    case absl::StatusCode::kUnavailable:
      return STRATA_STOPPED;
    case absl::StatusCode::kCancelled:
      return STRATA_INTERRUPTED;
    case absl::StatusCode::kOutOfRange:
      return STRATA_NO_MORE_STEPS;
    default:
      return STRATA_INTERNAL;
  }
}

}  // namespace

strata_code Take(const absl::Status& status) {
  if (!status.ok()) {
    ErrorText() = std::string(status.message());
    ErrorHasDiverged() = HasDiverged(status);
  }
  return CodeOf(status.code());
}

int32_t ProgramDevice::index() const {
  if (launch_.record().job().device() != proto::Job::GPU) return -1;
  const int rank = static_cast<int>(launch_.local_rank());
  return rank < launch_.devices_size() ? static_cast<int32_t>(launch_.devices(rank)) : -1;
}

absl::Status ProgramDevice::Open() {
  if (device_ != nullptr) return absl::OkStatus();
  if (index() < 0) {
    return absl::FailedPreconditionError("the rank has no device, see strata_device_index");
  }
  auto device = worker::UseDevice(launch_, launch_.local_rank());
  if (!device.ok()) return device.status();
  auto stream = (*device)->NewStream(/*urgent=*/false);
  if (!stream.ok()) return stream.status();
  auto ready = (*device)->NewEvent();
  if (!ready.ok()) return ready.status();
  device_ = *std::move(device);
  own_ = *std::move(stream);
  ready_ = *std::move(ready);
  return absl::OkStatus();
}

absl::Status ProgramDevice::ComputeIn(void* cuda_stream, ClientDevices& devices) {
  if (adopted_ != nullptr && adopted_->native() == cuda_stream) return absl::OkStatus();
  std::unique_ptr<device::Stream> stream;
  if (cuda_stream != nullptr) {
    if (absl::Status status = Open(); !status.ok()) return status;
    auto adopted = device_->AdoptStream(cuda_stream);
    if (!adopted.ok()) return adopted.status();
    stream = *std::move(adopted);
  }
  if (absl::Status status = devices.ComputeIn(stream.get()); !status.ok()) return status;
  adopted_ = std::move(stream);
  return absl::OkStatus();
}

absl::StatusOr<void*> ProgramDevice::StreamInUse() {
  if (absl::Status status = Open(); !status.ok()) return status;
  return InUse().native();
}

absl::Status ProgramDevice::Copy(void* to, const void* from, size_t bytes, void* ready_in) {
  if (absl::Status status = Open(); !status.ok()) return status;
  device::Stream& stream = InUse();
  if (ready_in != nullptr && ready_in != stream.native()) {
    const auto other = device_->AdoptStream(ready_in);
    if (!other.ok()) return other.status();
    absl::Status status = (*other)->Record(ready_.get());
    if (status.ok()) status = stream.Wait(*ready_);
    if (!status.ok()) return status;
  }
  if (absl::Status status = stream.Copy(to, from, bytes); !status.ok()) return status;
  return adopted_ == nullptr ? stream.Synchronize() : absl::OkStatus();
}

absl::StatusOr<void*> ProgramDevice::Allocate(size_t bytes) {
  if (absl::Status status = Open(); !status.ok()) return status;
  auto memory = device_->Allocate(bytes, "arrays of the program");
  if (!memory.ok()) return memory.status();
  memory_.push_back(*std::move(memory));
  return memory_.back().get();
}

}  // namespace strata::client
