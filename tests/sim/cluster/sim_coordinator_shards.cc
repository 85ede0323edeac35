// The part of SimCoordinator that saves jobs, and sees where their shards lie.
#include <utility>

#include "tests/sim/cluster/server_drains.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

std::vector<Causes::Home> HomesOf(const proto::StoredJob& job) {
  std::vector<Causes::Home> homes;
  const auto& generations = job.record().placement().shard_generations();
  for (int s = 0; s < job.status().shards_size(); ++s) {
    const proto::JobShardStatus& shard = job.status().shards(s);
    // One without chunks is its server's only while that has others of the job.
    homes.push_back({.first = shard.chunks() > 0 ? shard.daemon() : "",
                     .second = shard.backup(),
                     .is_partial = shard.backup_is_partial(),
                     .generation = s < generations.size() ? generations[s] : 0,
                     .next = shard.next_backup(),
                     .next_generation = shard.next_generation(),
                     .replaces_first = shard.replaces_primary()});
  }
  return homes;
}

}  // namespace

void SimCoordinator::NoteNext(const Causes::Home& was, const Causes::Home& is) {
  if (!is.next.empty() && was.next.empty()) {
    world_->Count(Rare::kNextBackup);
    DisturbMove({is.first, is.second, is.next}, world_);
  }
  const bool is_taken = is.generation == was.next_generation && is.second == was.next;
  if (!was.next.empty() && is.next.empty() && !is_taken) world_->Count(Rare::kNextBackupIsVoid);
}

absl::Status SimCoordinator::Persist(const proto::StoredJob& job) {
  if (dies_) return absl::OkStatus();
  const uint32_t id = job.record().job_id();
  const std::vector<Causes::Home> before = HomesOf(stored_[id]), now = HomesOf(job);
  const bool moves = !before.empty() && before[0].generation > 0 && before != now;
  for (size_t s = 0; moves && s < now.size(); ++s) {
    const bool is_whole_now = before[s].is_partial && !now[s].is_partial && !now[s].second.empty();
    if (is_whole_now) world_->Count(Rare::kNewCopyWhole);
    NoteNext(before[s], now[s]);
  }
  if (world_->plan(id).changes_nodes()) world_->views().OnSaved(job);
  const proto::StoredJob saved = std::exchange(stored_[id], job);
  checker_.OnSaved(job);
  next_job_ = std::max(next_job_, id + 1);
  if (job.training() && job.record().job().replicas() > 0) {
    const std::string wrong = world_->causes().OnHomes(id, now);
    if (!wrong.empty()) world_->Fail("a copy is given up by what was done to it: " + wrong);
  }
  if (moves) MaybeDieAtSave(Rare::kRestartAtSave);
  if (world_->plan(id).changes_nodes()) NoteChanges(saved, job);
  return absl::OkStatus();
}

}  // namespace strata::sim
