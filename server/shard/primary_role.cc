#include "server/shard/primary_role.h"

#include <utility>

#include "common/require.h"

namespace strata::server {

using wire::Op;

PrimaryRole::PrimaryRole(const ShardPlan& plan, const FrameGate& gate, ShardChunks* chunks,
                         NextBackup* next, bool stands_still)
    : plan_(plan), gate_(gate), chunks_(*chunks), next_(*next), stands_still_(stands_still) {}

void PrimaryRole::BeginBackup(FollowingCopy backup) {
  STRATA_REQUIRE(!backup_);
  backup_.emplace(std::move(backup));
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    chunks_[chunk].sums().Keep(plan_.logs_sums && backup_->Follows(chunk));
  }
}

void PrimaryRole::TakeNext(FollowingCopy next, bool is_whole, std::vector<ShardAction>* actions) {
  if (backup_) {
    std::vector<ShardAction> kept_back;
    backup_->line().GiveUp(&kept_back);
    next.line().KeepBack(std::move(kept_back));
    backup_.reset();
  }
  stands_still_ = plan_.waits_unprotected && !is_whole;
  BeginBackup(std::move(next));
  PassOn(actions);
}

void PrimaryRole::EndBackups(std::vector<ShardAction>* actions) {
  stands_still_ = plan_.waits_unprotected;
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) chunks_[chunk].sums().Keep(false);
  // Changes that only the next backup lacks are older than those that the backup lacks.
  std::vector<ShardAction> kept_back;
  next_.Drop(&kept_back);
  if (backup_) backup_->line().GiveUp(&kept_back);
  backup_.reset();
  Emit(std::move(kept_back), actions);
}

void PrimaryRole::Log(const wire::Frame& change, std::optional<size_t> chunk, absl::Time now) {
  const absl::Time made_at = chunks_.TimeAt(now);
  if (backup_) backup_->Log(change, chunk, made_at, now);
  if (next_.copy) next_.copy->Log(change, chunk, made_at, now);
}

void PrimaryRole::LogSums(size_t chunk, absl::Time now) {
  for (ClockSum& applied : chunks_[chunk].sums().Take()) {
    wire::Frame change = {.header = chunks_.HeaderOf(Op::kApply, chunk)};
    change.header.clock = applied.clock;
    change.header.received = applied.samples;
    change.header.base_version = ChangesBefore(plan_, applied.clock);
    change.header.rate = applied.rate;
    change.header.element_count = static_cast<uint32_t>(applied.sum.float_count());
    if (applied.sum.empty()) change.header.flags = wire::kFlagEmpty;
    change.payload = std::move(applied.sum);
    Log(change, chunk, now);
  }
}

void PrimaryRole::LogGraceIsOver(size_t chunk, absl::Time now) {
  wire::Frame change = {.header = chunks_.HeaderOf(Op::kApply, chunk)};
  change.header.flags = wire::kFlagEmpty;
  Log(change, chunk, now);
}

void PrimaryRole::Emit(std::vector<ShardAction> made, std::vector<ShardAction>* actions) {
  if (backup_ && !stands_still_ && backup_->is_whole()) {
    backup_->line().KeepBack(std::move(made));
    return PassOn(actions);
  }
  std::vector<ShardAction> kept_back;
  for (ShardAction& action : made) {
    // Nodes repeat requests that are not answered now.
    if (stands_still_ && !TellsNothing(action)) continue;
    const std::optional<size_t> chunk = gate_.IndexOf(ChunkId(action.frame.header.chunk));
    const bool follows = backup_ && !backup_->is_whole() &&
                         (action.frame.header.op == Op::kRetireOk ||
                          (chunk.has_value() && backup_->Follows(*chunk)));
    (follows ? kept_back : *actions).push_back(std::move(action));
  }
  if (backup_) backup_->line().KeepBack(std::move(kept_back));
  PassOn(actions);
}

void PrimaryRole::PassOn(std::vector<ShardAction>* actions) {
  if (next_.copy) {
    if (backup_) {
      // Answers leave once the next backup, too, has the changes.
      std::vector<ShardAction> confirmed;
      backup_->line().TakeReleased(&confirmed);
      next_.copy->line().KeepBack(std::move(confirmed));
    }
    next_.copy->line().TakeActions(actions);
  }
  if (backup_) backup_->line().TakeActions(actions);
}

}  // namespace strata::server
