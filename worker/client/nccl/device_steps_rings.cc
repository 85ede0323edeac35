// The part of DeviceSteps that goes on without ranks that die.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/require.h"
#include "worker/client/nccl/device_steps.h"

namespace strata::nccl {
void DeviceSteps::WatchCommunicator() {
  watch_.emplace(
      communicator_.get(), still_wanted_,
      stops_ == nullptr ? CommunicatorWatch::kForTheJob : CommunicatorWatch::kForTheCoordinator);
}

absl::Status DeviceSteps::SettleFor(const Chunk& chunk) {
  const bool is_due = stops_ != nullptr && chunk.step && *chunk.step >= made_;
  return is_due ? Settle() : absl::OkStatus();
}

absl::Status DeviceSteps::Settle() {
  if (absl::Status status = OrCause(absl::OkStatus()); !status.ok()) return status;
  if (made_ == begun_) return absl::OkStatus();
  if (absl::Status status = AwaitCount(); !status.ok()) return status;
  if (absl::Status status = OrCause(QueuePublished(made_)); !status.ok()) return status;
  STRATA_REQUIRE(queued_ == chunks_.size());
  absl::Status reduced = Await(*arrived_);
  return reduced.ok() ? ApplySums() : reduced;
}

// Sums are aborted once the ring is known to be stopped, and never before. So where it is not yet
// when the step counts as made, they were complete.
absl::Status DeviceSteps::ApplySums() {
  if (absl::Status status = OrCause(communicator_->Error()); !status.ok()) return status;
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    if (absl::Status status = CheckVerdict(ChunkId(c), made_); !status.ok()) return status;
  }
  if (!stops_->Make(made_ + 1)) return stops_->Check();
  ++made_;
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    absl::Status status = Update(chunks_[c], map_->OffsetOf(ChunkId(c)), made_);
    if (status.ok()) status = stream_->Record(chunks_[c].landed.get());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceSteps::LeaveRing() {
  communicator_->Abort();
  return stream_->Synchronize();
}

absl::Status DeviceSteps::GoOn(std::unique_ptr<device::Communicator> communicator, uint32_t ranks,
                               uint32_t rank) {
  watch_.reset();
  communicator_ = std::move(communicator);
  ranks_ = ranks;
  WatchCommunicator();
  absl::Status status =
      OrCause(rank_sums_->StartEach(communicator_.get(), ranks, rank, made_, still_wanted_));
  if (status.ok()) status = Await(rank_sums_->done(), /*asks_program=*/false);
  if (!status.ok()) return status;
  const std::vector<uint64_t> made = rank_sums_->Each();
  const auto [least, most] = std::minmax_element(made.begin(), made.end());
  const bool is_behind = made_ < *most;
  // What the others have made has this rank's gradients in it.
  if (*most - *least > 1 || (is_behind && queued_ < chunks_.size())) {
    return absl::InternalError(
        absl::StrFormat("rank %d of the new ring has made %d steps and rank %d %d, which no "
                        "all-reduce leaves",
                        most - made.begin(), *most, least - made.begin(), *least));
  }
  if (*least < *most) status = TakeSumsOf(static_cast<uint32_t>(most - made.begin()));
  if (!status.ok()) return status;
  return is_behind ? ApplySums() : BeginAgain();
}

// Others that have made the step get the bits that they have: as much of them as comes leaves them
// their sums.
absl::Status DeviceSteps::TakeSumsOf(uint32_t rank) {
  absl::Status status =
      communicator_->Broadcast(*stream_, sums_, layout_.elements(), rank, still_wanted_);
  if (status.ok()) status = stream_->Record(arrived_.get());
  if (status = OrCause(std::move(status)); !status.ok()) return status;
  return Await(*arrived_, /*asks_program=*/false);
}

// With what is published of the step that no rank has made.
absl::Status DeviceSteps::BeginAgain() {
  if (made_ == begun_) return absl::OkStatus();
  if (!counting_) samples_ -= step_samples_;
  counting_ = true;
  for (uint32_t c = 0; c < queued_; ++c) chunks_[c].published = true;
  queued_ = 0;
  return OrCause(StartSum(own_samples_, begun_, still_wanted_));
}

// All ranks have made all steps, so that none is needed any more: one that dies meanwhile takes
// nothing along.
absl::Status DeviceSteps::EndRing() {
  absl::Status status = communicator_->Finish(caller_waits_);
  watch_->Stop();
  const bool is_left = stops_->is_stopped() || absl::IsAborted(watch_->status());
  return is_left || absl::IsInternal(status) ? absl::OkStatus() : OrCause(std::move(status));
}

}  // namespace strata::nccl
