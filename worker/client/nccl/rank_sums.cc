#include "worker/client/nccl/rank_sums.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"

namespace strata::nccl {

absl::StatusOr<std::unique_ptr<RankSums>> RankSums::Create(device::Device* device,
                                                           device::Stream* stream, uint32_t slots) {
  auto sums = absl::WrapUnique(new RankSums(stream));
  absl::Status status =
      sums->Allocate(device, sizeof(Agreed), "a count of samples", &sums->agreed_);
  if (status.ok() && slots > 0) {
    status =
        sums->Allocate(device, slots * sizeof(uint64_t), "a number of each rank's", &sums->each_);
  }
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<device::Event>> done = device->NewEvent();
  if (!done.ok()) return done.status();
  sums->done_ = *std::move(done);
  return sums;
}

absl::Status RankSums::Allocate(device::Device* device, size_t bytes, const char* what,
                                Words* words) {
  absl::StatusOr<device::Memory> on_device = device->Allocate(bytes, what);
  if (!on_device.ok()) return on_device.status();
  absl::StatusOr<device::Memory> on_host = device->AllocatePinned(bytes, what);
  if (!on_host.ok()) return on_host.status();
  device_bytes_ += bytes;
  *words = {*std::move(on_device), *std::move(on_host)};
  return absl::OkStatus();
}

absl::Status RankSums::Queue(const Words& words, const void* own, size_t count,
                             device::Communicator* communicator,
                             const device::StillWanted& wanted) {
  const size_t bytes = count * sizeof(uint64_t);
  auto* const on_device = reinterpret_cast<uint64_t*>(words.on_device.get());
  std::memcpy(words.on_host.get(), own, bytes);
  absl::Status status = stream_->Copy(on_device, words.on_host.get(), bytes);
  if (status.ok()) status = communicator->AllReduce(*stream_, on_device, count, wanted);
  if (status.ok()) status = stream_->Copy(words.on_host.get(), on_device, bytes);
  return status.ok() ? stream_->Record(done_.get()) : status;
}

absl::Status RankSums::Start(device::Communicator* communicator, uint32_t ranks, const Own& own,
                             const device::StillWanted& wanted) {
  ranks_ = ranks;
  own_ = own;
  const Agreed agreed = {own.value, own.step, std::bit_cast<uint32_t>(own.rate)};
  return Queue(agreed_, &agreed, sizeof agreed / sizeof(uint64_t), communicator, wanted);
}

// Where one rank has another number, at least one finds that the sum is not its own times theirs.
absl::StatusOr<uint64_t> RankSums::Sum() const {
  Agreed sums = {};
  std::memcpy(&sums, agreed_.on_host.get(), sizeof sums);
  if (sums.step != ranks_ * own_.step) {
    return absl::InvalidArgumentError(
        own_.step == 0
            ? absl::StrFormat("ends after %s, but another rank goes on", Counted(own_.made, "step"))
            : absl::StrFormat("goes on with step %d, but another rank has made its last",
                              own_.step - 1));
  }
  if (sums.rate == ranks_ * uint64_t{std::bit_cast<uint32_t>(own_.rate)}) return sums.value;
  return absl::InvalidArgumentError(absl::StrFormat(
      "says learning rate %.9g at step %d, another rank another one", own_.rate, own_.step - 1));
}

absl::Status RankSums::StartEach(device::Communicator* communicator, uint32_t ranks, uint32_t rank,
                                 uint64_t value, const device::StillWanted& wanted) {
  ranks_ = ranks;
  std::vector<uint64_t> values(ranks, 0);
  values[rank] = value;
  return Queue(each_, values.data(), values.size(), communicator, wanted);
}

std::vector<uint64_t> RankSums::Each() const {
  std::vector<uint64_t> values(ranks_);
  std::memcpy(values.data(), each_.on_host.get(), values.size() * sizeof(uint64_t));
  return values;
}

}  // namespace strata::nccl
