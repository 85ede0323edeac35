// The part of ShardJob that fills the copy which is to be its backup next, while the one of now
// follows: so a shard can leave a server without ever having fewer than two whole copies. A primary
// fills it where its backup is to lie elsewhere, a backup where the primary is to be replaced by
// it. What either confirms the next backup has, too: whatever was confirmed is there when the two
// change places.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/require.h"
#include "server/shard/shard_job.h"

namespace strata::server {

absl::Status ShardJob::FillNext(uint32_t generation, const std::string& address,
                                std::vector<ShardAction>* actions) {
  const bool is_old = generation <= plan_.generation || generation < next_generation_;
  const bool is_done = next_ && generation == next_generation_ && address == next_->address;
  if (is_old || is_done) return absl::OkStatus();
  DropNext(actions);
  next_generation_ = generation;
  if (address.empty()) return absl::OkStatus();
  if (address == plan_.backup) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "job %d shard %d: its backup is at %s", plan_.job.value(), plan_.shard.value(), address));
  }
  if (std::count(lacks_.begin(), lacks_.end(), true) > 0) {
    return absl::FailedPreconditionError(absl::StrFormat("job %d shard %d is not whole here",
                                                         plan_.job.value(), plan_.shard.value()));
  }
  next_.emplace(
      NextBackup{address, NewBackupLine(address, generation), BackupFill(chunks_.size())});
  return absl::OkStatus();
}

absl::Status ShardJob::TakeNext(bool is_whole, std::vector<ShardAction>* actions) {
  STRATA_REQUIRE(next_.has_value());
  NextBackup next = *std::move(next_);
  next_.reset();
  const uint32_t generation = next_generation_;
  if (is_backup_) {
    if (absl::Status promoted = Promote(generation, actions); !promoted.ok()) return promoted;
  } else if (backup_ != nullptr) {
    std::vector<ShardAction> kept_back;
    backup_->GiveUp(&kept_back);
    next.line->KeepBack(std::move(kept_back));
  }
  plan_.generation = generation;
  plan_.backup = next.address;
  stands_still_ = plan_.waits_unprotected && !is_whole;
  backup_ = std::move(next.line);
  fill_ = std::move(next.fill);
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    chunks_[chunk]->sums().Keep(plan_.logs_sums && (!fill_ || fill_->IsSaid(chunk)));
  }
  PassOn(actions);
  return absl::OkStatus();
}

void ShardJob::DropNext(std::vector<ShardAction>* actions) {
  if (!next_) return;
  next_->line->GiveUp(actions);
  next_.reset();
}

// What the backup has is told once the next one has it, too.
void ShardJob::PassOn(std::vector<ShardAction>* actions) {
  if (next_) {
    if (backup_ != nullptr) {
      std::vector<ShardAction> confirmed;
      backup_->TakeReleased(&confirmed);
      next_->line->KeepBack(std::move(confirmed));
    }
    next_->line->TakeActions(actions);
  }
  if (backup_ != nullptr) backup_->TakeActions(actions);
}

// Null: no copy is at this address.
BackupLine* ShardJob::LineTo(const std::string& address) {
  if (backup_ != nullptr && address == plan_.backup) return backup_.get();
  return next_ && address == next_->address ? next_->line.get() : nullptr;
}

std::vector<BackupState> ShardJob::backup_states() const {
  std::vector<BackupState> states;
  const auto add = [&](const BackupLine& line, const std::optional<BackupFill>& fill,
                       bool is_next) {
    states.push_back({.job = plan_.job,
                      .shard = plan_.shard,
                      .generation = is_next ? next_generation_ : plan_.generation,
                      .waits_since = line.waits_since(),
                      .refusal = line.refusal(),
                      .chunks_missing = fill ? fill->Missing(line.acknowledged()) : 0,
                      .is_next = is_next});
  };
  if (backup_ != nullptr) add(*backup_, fill_, false);
  if (next_) add(*next_->line, next_->fill, true);
  return states;
}

}  // namespace strata::server
