#include "server/coordinator/jobs/checkpoint_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/manifest.h"
#include "common/job/consistency.h"

namespace strata::server {

CheckpointLedger::CheckpointLedger(const proto::JobRecord& record)
    : steps_per_clock_(StepsPerClock(record.job())) {
  for (const uint32_t shard : record.placement().shard_of_chunk()) {
    parts_.emplace(proto::CheckpointPart::kShard, shard);
  }
  for (const uint32_t shard : record.placement().shard_of_bucket()) {
    parts_.emplace(proto::CheckpointPart::kRows, shard);
  }
  if (RanksKeepWeights(record.job())) parts_.emplace(proto::CheckpointPart::kShard, 0);
  const bool is_ring = record.job().exchange() == proto::Job::RING;
  for (int n = 0; is_ring && n < record.view().nodes_size(); ++n) {
    parts_.emplace(proto::CheckpointPart::kShard, n);
  }
  if (NodesKeepState(record.job())) {
    for (const proto::LogicalNode& node : record.view().nodes()) {
      parts_.emplace(proto::CheckpointPart::kNode, node.node());
    }
  }
  if (record.ranks_keep_state()) {
    for (uint32_t rank = 0; rank < record.job().ranks(); ++rank) {
      parts_.emplace(proto::CheckpointPart::kRank, rank);
    }
  }
}

void CheckpointLedger::TakeOver(const proto::CheckpointStatus& status) {
  if (status.complete() > 0) newest_ = status.newest_step() / steps_per_clock_;
}

CheckpointLedger::Part CheckpointLedger::PartOf(const proto::CheckpointPart& part) {
  switch (part.of_case()) {
    case proto::CheckpointPart::kNode:
      return {proto::CheckpointPart::kNode, part.node()};
    case proto::CheckpointPart::kRank:
      return {proto::CheckpointPart::kRank, part.rank()};
    case proto::CheckpointPart::kRows:
      return {proto::CheckpointPart::kRows, part.rows()};
    default:
      return {part.of_case(), part.shard()};
  }
}

void CheckpointLedger::OnPart(const std::string& who, const proto::CheckpointPart& part,
                              proto::CheckpointStatus* status) {
  const uint64_t clock = part.clock();
  const bool is_late =
      clock <= newest_ || failed_.contains(clock) || (keeping_ && keeping_->clock == clock);
  if (is_late || !parts_.contains(PartOf(part))) return;
  if (!part.error().empty()) {
    GiveUp(clock, absl::StrFormat("step %d: %s: %s", clock * steps_per_clock_, who, part.error()),
           status);
  } else {
    std::vector<proto::CheckpointObject>& objects = open_[clock][PartOf(part)];
    objects = {part.pieces().begin(), part.pieces().end()};
    if (!part.has_rows()) objects = {part.object()};
    size_t all = 0;
    for (const auto& [of, some] : open_[clock]) all += some.size();
    if (all > kCheckpointObjectsMax) {
      GiveUp(clock,
             absl::StrFormat("step %d: more than %d objects", clock * steps_per_clock_,
                             kCheckpointObjectsMax),
             status);
    }
  }
  ShowWriting(status);
}

std::optional<CheckpointLedger::Whole> CheckpointLedger::TakeWhole() {
  if (keeping_) return std::nullopt;
  for (auto& [clock, objects] : open_) {
    if (objects.size() < parts_.size()) continue;
    keeping_ = Whole{.clock = clock};
    for (auto& [part, of_part] : objects) {
      std::move(of_part.begin(), of_part.end(), std::back_inserter(keeping_->objects));
    }
    open_.erase(clock);
    return keeping_;
  }
  return std::nullopt;
}

void CheckpointLedger::OnKept(uint64_t clock, const absl::Status& kept, absl::Time now,
                              proto::CheckpointStatus* status) {
  if (!keeping_ || keeping_->clock != clock) return;
  const Whole whole = *std::exchange(keeping_, std::nullopt);
  if (absl::IsOutOfRange(kept)) {
    newest_ = std::max(newest_, clock);
    return ShowWriting(status);
  }
  if (!kept.ok()) {
    GiveUp(clock, absl::StrFormat("step %d: %s", clock * steps_per_clock_, kept.message()), status);
    return ShowWriting(status);
  }
  // Each writes its parts in order, so missing parts of earlier checkpoints will not come any more.
  while (!open_.empty() && open_.begin()->first < clock) {
    GiveUp(open_.begin()->first, "", status);
  }
  newest_ = clock;
  failed_.erase(failed_.begin(), failed_.upper_bound(clock));
  status->set_complete(status->complete() + 1);
  status->set_newest_step(clock * steps_per_clock_);
  status->set_newest_ms(absl::ToUnixMillis(now));
  uint64_t bytes = 0;
  for (const proto::CheckpointObject& object : whole.objects) bytes += object.bytes();
  status->set_newest_bytes(bytes);
  if (failed_.empty()) status->clear_problem();
  ShowWriting(status);
}

void CheckpointLedger::Expect(uint64_t clock, proto::CheckpointStatus* status) {
  const bool is_known =
      clock <= newest_ || failed_.contains(clock) || (keeping_ && keeping_->clock == clock);
  if (!is_known && !parts_.empty()) open_[clock];
  ShowWriting(status);
}

void CheckpointLedger::Close(proto::CheckpointStatus* status) {
  std::erase_if(open_, [&](const auto& open) { return open.second.size() < parts_.size(); });
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
  status->clear_writing_step();
  status->set_objects(parts_.size());
  status->set_objects_written(0);
  if (keeping_) {
    status->set_writing_step(keeping_->clock * steps_per_clock_);
    status->set_objects_written(parts_.size());
  } else if (!open_.empty()) {
    status->set_writing_step(open_.begin()->first * steps_per_clock_);
    status->set_objects_written(open_.begin()->second.size());
  }
}

}  // namespace strata::server
