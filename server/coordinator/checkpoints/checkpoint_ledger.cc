#include "server/coordinator/checkpoints/checkpoint_ledger.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::server {

CheckpointLedger::CheckpointLedger(const proto::Placement& placement)
    : shards_(placement.shard_of_chunk().begin(), placement.shard_of_chunk().end()) {}

void CheckpointLedger::OnPart(const std::string& daemon, const proto::CheckpointPart& part,
                              proto::CheckpointStatus* status) {
  const uint64_t clock = part.clock();
  const bool is_late =
      clock <= newest_ || failed_.contains(clock) || (keeping_ && keeping_->clock == clock);
  if (is_late || !shards_.contains(part.shard())) return;
  if (!part.error().empty()) {
    GiveUp(clock, absl::StrFormat("step %d: server %s: %s", clock, daemon, part.error()), status);
  } else {
    open_[clock][part.shard()] = part.object();
  }
  ShowWriting(status);
}

std::optional<CheckpointLedger::Whole> CheckpointLedger::TakeWhole() {
  if (keeping_) return std::nullopt;
  for (auto& [clock, objects] : open_) {
    if (objects.size() < shards_.size()) continue;
    keeping_ = Whole{.clock = clock};
    for (auto& [shard, object] : objects) keeping_->objects.push_back(std::move(object));
    open_.erase(clock);
    return keeping_;
  }
  return std::nullopt;
}

void CheckpointLedger::OnKept(uint64_t clock, const absl::Status& kept, absl::Time now,
                              proto::CheckpointStatus* status) {
  if (!keeping_ || keeping_->clock != clock) return;
  const Whole whole = *std::exchange(keeping_, std::nullopt);
  if (!kept.ok()) {
    GiveUp(clock, absl::StrFormat("step %d: %s", clock, kept.message()), status);
    return ShowWriting(status);
  }
  // Shards write in order, so what is missing of earlier ones does not come any more.
  while (!open_.empty() && open_.begin()->first < clock) {
    GiveUp(open_.begin()->first, "", status);
  }
  newest_ = clock;
  failed_.erase(failed_.begin(), failed_.upper_bound(clock));
  status->set_complete(status->complete() + 1);
  status->set_newest_clock(clock);
  status->set_newest_ms(absl::ToUnixMillis(now));
  uint64_t bytes = 0;
  for (const proto::CheckpointObject& object : whole.objects) bytes += object.bytes();
  status->set_newest_bytes(bytes);
  if (failed_.empty()) status->clear_problem();
  ShowWriting(status);
}

void CheckpointLedger::Close(proto::CheckpointStatus* status) {
  std::erase_if(open_, [&](const auto& open) { return open.second.size() < shards_.size(); });
  ShowWriting(status);
}

void CheckpointLedger::GiveUp(uint64_t clock, const std::string& problem,
                              proto::CheckpointStatus* status) {
  open_.erase(clock);
  failed_.insert(clock);
  status->set_failed(status->failed() + 1);
  status->set_problem(problem);
}

void CheckpointLedger::ShowWriting(proto::CheckpointStatus* status) const {
  status->clear_writing_clock();
  status->set_objects(shards_.size());
  status->set_objects_written(0);
  if (keeping_) {
    status->set_writing_clock(keeping_->clock);
    status->set_objects_written(shards_.size());
  } else if (!open_.empty()) {
    status->set_writing_clock(open_.begin()->first);
    status->set_objects_written(open_.begin()->second.size());
  }
}

}  // namespace strata::server
