#include "server/coordinator/placement/shard_homes.h"

#include <algorithm>

#include "common/job/placement.h"
#include "common/require.h"

namespace strata::server {
namespace {

// Higher than all generations of the shard so far.
uint32_t NewGeneration(int shard, const proto::JobRecord& record, const proto::JobStatus& status) {
  const ShardId id(static_cast<uint32_t>(shard));
  return 1 +
         std::max(ShardGeneration(record.placement(), id), status.shards(shard).next_generation());
}

// Records of jobs without backups lack the per-shard fields.
void MakeRoom(proto::JobRecord* record) {
  proto::Placement* const placement = record->mutable_placement();
  while (placement->shard_generations_size() < placement->shard_endpoints_size()) {
    placement->add_shard_generations(placement->generation());
  }
  while (placement->backup_endpoints_size() < placement->shard_endpoints_size()) {
    placement->add_backup_endpoints("");
  }
}

void ForgetNext(proto::JobShardStatus* shard) {
  shard->clear_next_backup();
  shard->clear_next_backup_shard();
  shard->clear_next_endpoint();
  shard->clear_replaces_primary();
}

// The shard has only the copy in its status. Adds the copy that was to be its next backup to the
// dropped ones.
void ContinueWithoutBackup(int shard, proto::JobRecord* record, proto::JobStatus* status,
                           std::vector<DroppedCopy>* dropped) {
  proto::Placement* const placement = record->mutable_placement();
  if (!status->shards(shard).next_backup().empty()) {
    dropped->push_back(DropNext(ShardId(static_cast<uint32_t>(shard)), status));
  }
  placement->set_backup_endpoints(shard, "");
  placement->set_shard_generations(shard, NewGeneration(shard, *record, *status));
  status->mutable_shards(shard)->clear_backup();
  status->mutable_shards(shard)->clear_backup_shard();
  status->mutable_shards(shard)->clear_backup_is_partial();
}

// Makes the backup the primary.
void MakePrimary(int shard, proto::JobRecord* record, proto::JobShardStatus* home) {
  proto::Placement* const placement = record->mutable_placement();
  placement->set_shard_endpoints(shard, placement->backup_endpoints(shard));
  home->set_daemon(home->backup());
  home->set_shard(home->backup_shard());
}

ShardStep StepWithNext(const proto::JobShardStatus& shard, bool primary_leaves, bool backup_leaves,
                       bool next_leaves) {
  const bool is_wanted = shard.replaces_primary() ? primary_leaves : backup_leaves;
  return is_wanted && !next_leaves ? ShardStep::kNone : ShardStep::kDropNext;
}

// For a job without backups: a second copy exists only to take over.
ShardStep StepOfOnlyCopy(const proto::JobShardStatus& shard, bool primary_leaves,
                         bool backup_leaves) {
  if (shard.backup().empty()) return primary_leaves ? ShardStep::kAddBackup : ShardStep::kNone;
  if (!primary_leaves || backup_leaves) return ShardStep::kDropBackup;
  return shard.backup_is_partial() ? ShardStep::kNone : ShardStep::kPromote;
}

}  // namespace

ServerLoss TakeFrom(const std::string& daemon, proto::JobRecord* record, proto::JobStatus* status) {
  ServerLoss loss;
  for (int i = 0; i < status->shards_size(); ++i) {
    proto::JobShardStatus& shard = *status->mutable_shards(i);
    const bool had_first = shard.daemon() == daemon;
    if (shard.next_backup() == daemon) loss.dropped.push_back(DropNext(ShardId(i), status));
    if (shard.chunks() == 0 || (!had_first && shard.backup() != daemon)) continue;
    if (had_first && (shard.backup().empty() || shard.backup_is_partial())) {
      loss.lost.emplace_back(i);
      continue;
    }
    if (had_first) MakePrimary(i, record, &shard);
    ContinueWithoutBackup(i, record, status, &loss.dropped);
    loss.moved.emplace_back(i);
  }
  return loss;
}

std::vector<DroppedCopy> DropBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                                    proto::JobRecord* record, proto::JobStatus* status) {
  const int index = static_cast<int>(shard.value());
  if (index >= status->shards_size()) return {};
  const proto::JobShardStatus& home = status->shards(index);
  const uint32_t now = ShardGeneration(record->placement(), shard);
  if (home.daemon() != daemon || home.backup().empty() || generation != now) return {};
  std::vector<DroppedCopy> dropped = {{shard, home.backup(), 0}};
  ContinueWithoutBackup(index, record, status, &dropped);
  dropped[0].generation = ShardGeneration(record->placement(), shard);
  return dropped;
}

void AddBackup(ShardId shard, const ServerShards& server, uint32_t thread, proto::JobRecord* record,
               proto::JobStatus* status) {
  const int index = static_cast<int>(shard.value());
  MakeRoom(record);
  proto::Placement* const placement = record->mutable_placement();
  STRATA_REQUIRE(placement->backup_endpoints(index).empty());
  placement->set_backup_endpoints(index, ShardEndpoint(server, thread));
  placement->set_shard_generations(index, NewGeneration(index, *record, *status));
  proto::JobShardStatus* const home = status->mutable_shards(index);
  home->set_backup(server.daemon);
  home->set_backup_shard(thread);
  home->set_backup_is_partial(true);
}

bool CompleteBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                    const proto::JobRecord& record, proto::JobStatus* status) {
  const int index = static_cast<int>(shard.value());
  if (index >= status->shards_size()) return false;
  proto::JobShardStatus* const home = status->mutable_shards(index);
  const bool is_of_now = home->daemon() == daemon && !home->backup().empty() &&
                         generation == ShardGeneration(record.placement(), shard);
  if (!is_of_now || !home->backup_is_partial()) return false;
  home->clear_backup_is_partial();
  return true;
}

DroppedCopy PromoteBackup(ShardId shard, proto::JobRecord* record, proto::JobStatus* status) {
  const int index = static_cast<int>(shard.value());
  proto::JobShardStatus* const home = status->mutable_shards(index);
  STRATA_REQUIRE(!home->backup().empty() && !home->backup_is_partial());
  DroppedCopy left{shard, home->daemon(), 0};
  MakePrimary(index, record, home);
  std::vector<DroppedCopy> dropped;
  ContinueWithoutBackup(index, record, status, &dropped);
  STRATA_REQUIRE(dropped.empty());
  left.generation = ShardGeneration(record->placement(), shard);
  return left;
}

void AddNext(ShardId shard, const ServerShards& server, uint32_t thread, bool replaces_primary,
             proto::JobRecord* record, proto::JobStatus* status) {
  const int index = static_cast<int>(shard.value());
  proto::JobShardStatus* const home = status->mutable_shards(index);
  STRATA_REQUIRE(!home->backup().empty() && !home->backup_is_partial());
  STRATA_REQUIRE(home->next_backup().empty());
  home->set_next_generation(NewGeneration(index, *record, *status));
  home->set_next_backup(server.daemon);
  home->set_next_backup_shard(thread);
  home->set_next_endpoint(ShardEndpoint(server, thread));
  home->set_replaces_primary(replaces_primary);
}

const std::string& FillerOf(const proto::JobShardStatus& shard) {
  return shard.replaces_primary() ? shard.backup() : shard.daemon();
}

DroppedCopy TakeNext(ShardId shard, proto::JobRecord* record, proto::JobStatus* status) {
  const int index = static_cast<int>(shard.value());
  proto::JobShardStatus* const home = status->mutable_shards(index);
  STRATA_REQUIRE(!home->next_backup().empty());
  const DroppedCopy left{shard, home->replaces_primary() ? home->daemon() : home->backup(),
                         home->next_generation()};
  if (home->replaces_primary()) MakePrimary(index, record, home);
  proto::Placement* const placement = record->mutable_placement();
  placement->set_backup_endpoints(index, home->next_endpoint());
  placement->set_shard_generations(index, home->next_generation());
  home->set_backup(home->next_backup());
  home->set_backup_shard(home->next_backup_shard());
  ForgetNext(home);
  return left;
}

DroppedCopy DropNext(ShardId shard, proto::JobStatus* status) {
  proto::JobShardStatus* const home = status->mutable_shards(static_cast<int>(shard.value()));
  STRATA_REQUIRE(!home->next_backup().empty());
  // It belongs to the current generation itself.
  DroppedCopy dropped{shard, home->next_backup(), home->next_generation() + 1};
  ForgetNext(home);
  return dropped;
}

uint32_t DroppedBelow(ShardId shard, const proto::JobRecord& record,
                      const proto::JobStatus& status) {
  const proto::JobShardStatus& home = status.shards(static_cast<int>(shard.value()));
  const uint32_t dropped_next = home.next_generation() + (home.next_backup().empty() ? 1 : 0);
  return std::max(ShardGeneration(record.placement(), shard), dropped_next);
}

uint32_t CountCopies(const std::string& daemon, const proto::JobStatus& status) {
  uint32_t copies = 0;
  for (const proto::JobShardStatus& shard : status.shards()) {
    if (shard.chunks() == 0) continue;
    copies += shard.daemon() == daemon || shard.backup() == daemon || shard.next_backup() == daemon;
  }
  return copies;
}

proto::MoveShard PlaceOf(const proto::JobRecord& record, const proto::JobStatus& status,
                         ShardId shard) {
  const int index = static_cast<int>(shard.value());
  proto::MoveShard move;
  move.set_job_id(record.job_id());
  move.set_attempt(record.attempt());
  move.set_shard(shard.value());
  move.set_generation(ShardGeneration(record.placement(), shard));
  move.set_endpoint(record.placement().shard_endpoints(index));
  move.set_backup_endpoint(record.placement().backup_endpoints(index));
  move.set_backup_is_whole(!status.shards(index).backup().empty() &&
                           !status.shards(index).backup_is_partial());
  return move;
}

std::vector<ShardId> MovedShards(const proto::JobRecord& record) {
  const proto::Placement& placement = record.placement();
  std::vector<ShardId> moved;
  for (int i = 0; i < placement.shard_generations_size(); ++i) {
    if (placement.shard_generations(i) != placement.generation()) moved.emplace_back(i);
  }
  return moved;
}

std::vector<ShardId> Unprotected(const proto::JobRecord& record, const proto::JobStatus& status) {
  std::vector<ShardId> unprotected;
  for (int i = 0; i < status.shards_size() && record.job().replicas() > 0; ++i) {
    const proto::JobShardStatus& shard = status.shards(i);
    const bool has_two = !shard.backup().empty() && !shard.backup_is_partial();
    if (shard.chunks() > 0 && !has_two) unprotected.emplace_back(i);
  }
  return unprotected;
}

ShardStep NextStep(const proto::JobShardStatus& shard, uint32_t replicas,
                   const std::function<bool(const std::string&)>& leaves) {
  const bool primary_leaves = leaves(shard.daemon());
  const bool backup_leaves = !shard.backup().empty() && leaves(shard.backup());
  if (!shard.next_backup().empty()) {
    return StepWithNext(shard, primary_leaves, backup_leaves, leaves(shard.next_backup()));
  }
  if (replicas == 0) return StepOfOnlyCopy(shard, primary_leaves, backup_leaves);
  if (shard.backup().empty()) return ShardStep::kNone;  // it gets one first
  if (shard.backup_is_partial()) return backup_leaves ? ShardStep::kDropBackup : ShardStep::kNone;
  if (backup_leaves) return ShardStep::kReplaceBackup;
  return primary_leaves ? ShardStep::kReplacePrimary : ShardStep::kNone;
}

void CountFills(const proto::JobStatus& status, FillsOfServers* fills) {
  for (const proto::JobShardStatus& shard : status.shards()) {
    if (!shard.backup().empty() && shard.backup_is_partial()) {
      ++(*fills)[shard.daemon()];
      ++(*fills)[shard.backup()];
    }
    if (shard.next_backup().empty()) continue;
    ++(*fills)[FillerOf(shard)];
    ++(*fills)[shard.next_backup()];
  }
}

}  // namespace strata::server
