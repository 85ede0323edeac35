#include "server/coordinator/placement/shard_homes.h"

#include <algorithm>

#include "common/job/exchange/shard_generation.h"
#include "common/require.h"

namespace strata::server {
namespace {

// The shard has the copy alone that its status names.
void GoOnAlone(int shard, proto::JobRecord* record, proto::JobStatus* status) {
  proto::Placement* const placement = record->mutable_placement();
  placement->set_backup_endpoints(shard, "");
  placement->set_shard_generations(shard, placement->shard_generations(shard) + 1);
  status->mutable_shards(shard)->clear_backup();
  status->mutable_shards(shard)->clear_backup_shard();
  status->mutable_shards(shard)->clear_backup_is_partial();
}

}  // namespace

ServerLoss TakeFrom(const std::string& daemon, proto::JobRecord* record, proto::JobStatus* status) {
  ServerLoss loss;
  for (int i = 0; i < status->shards_size(); ++i) {
    proto::JobShardStatus& shard = *status->mutable_shards(i);
    const bool had_first = shard.daemon() == daemon;
    if (shard.chunks() == 0 || (!had_first && shard.backup() != daemon)) continue;
    if (had_first && (shard.backup().empty() || shard.backup_is_partial())) {
      loss.lost.emplace_back(i);
      continue;
    }
    if (had_first) {
      proto::Placement* const placement = record->mutable_placement();
      placement->set_shard_endpoints(i, placement->backup_endpoints(i));
      shard.set_daemon(shard.backup());
      shard.set_shard(shard.backup_shard());
    }
    GoOnAlone(i, record, status);
    loss.moved.emplace_back(i);
  }
  return loss;
}

bool DropBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                proto::JobRecord* record, proto::JobStatus* status) {
  const int index = static_cast<int>(shard.value());
  if (index >= status->shards_size()) return false;
  const proto::JobShardStatus& home = status->shards(index);
  const uint32_t now = ShardGeneration(record->placement(), shard);
  if (home.daemon() != daemon || home.backup().empty() || generation != now) return false;
  GoOnAlone(index, record, status);
  return true;
}

void AddBackup(ShardId shard, const ServerShards& server, uint32_t thread, proto::JobRecord* record,
               proto::JobStatus* status) {
  const int index = static_cast<int>(shard.value());
  proto::Placement* const placement = record->mutable_placement();
  STRATA_REQUIRE(placement->backup_endpoints(index).empty());
  placement->set_backup_endpoints(index, ShardEndpoint(server, thread));
  placement->set_shard_generations(index, placement->shard_generations(index) + 1);
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

bool HoldsAny(const std::string& daemon, const proto::JobStatus& status) {
  return std::any_of(status.shards().begin(), status.shards().end(),
                     [&](const proto::JobShardStatus& shard) {
                       return shard.daemon() == daemon || shard.backup() == daemon;
                     });
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

}  // namespace strata::server
