#include "server/coordinator/placement/shard_homes.h"

#include "common/job/exchange/shard_generation.h"

namespace strata::server {
namespace {

// The shard has the copy alone that its status names.
void GoOnAlone(int shard, proto::JobRecord* record, proto::JobStatus* status) {
  proto::Placement* const placement = record->mutable_placement();
  placement->set_backup_endpoints(shard, "");
  placement->set_shard_generations(shard, placement->shard_generations(shard) + 1);
  status->mutable_shards(shard)->clear_backup();
  status->mutable_shards(shard)->clear_backup_shard();
}

}  // namespace

ServerLoss TakeFrom(const std::string& daemon, proto::JobRecord* record, proto::JobStatus* status) {
  ServerLoss loss;
  for (int i = 0; i < status->shards_size(); ++i) {
    proto::JobShardStatus& shard = *status->mutable_shards(i);
    const bool had_first = shard.daemon() == daemon;
    if (shard.chunks() == 0 || (!had_first && shard.backup() != daemon)) continue;
    if (had_first && shard.backup().empty()) {
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

proto::MoveShard PlaceOf(const proto::JobRecord& record, ShardId shard) {
  proto::MoveShard move;
  move.set_job_id(record.job_id());
  move.set_attempt(record.attempt());
  move.set_shard(shard.value());
  move.set_generation(ShardGeneration(record.placement(), shard));
  move.set_endpoint(record.placement().shard_endpoints(static_cast<int>(shard.value())));
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

int CountUnprotected(const proto::JobRecord& record, const proto::JobStatus& status) {
  if (record.job().replicas() == 0) return 0;
  int unprotected = 0;
  for (const proto::JobShardStatus& shard : status.shards()) {
    if (shard.chunks() > 0 && shard.backup().empty()) ++unprotected;
  }
  return unprotected;
}

}  // namespace strata::server
