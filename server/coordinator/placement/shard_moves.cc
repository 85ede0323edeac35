#include "server/coordinator/placement/shard_moves.h"

#include "server/coordinator/placement/shard_homes.h"

namespace strata::server {
namespace {

ShardStep StepWithNext(const proto::JobShardStatus& shard, bool primary_leaves, bool backup_leaves,
                       bool next_leaves) {
  const bool is_wanted = shard.replaces_primary() ? primary_leaves : backup_leaves;
  return is_wanted && !next_leaves ? ShardStep::kNone : ShardStep::kDropNext;
}

// Of a job that is to have no second copies: what it has of those is there to take over.
ShardStep StepOfOnlyCopy(const proto::JobShardStatus& shard, bool primary_leaves,
                         bool backup_leaves) {
  if (shard.backup().empty()) return primary_leaves ? ShardStep::kAddBackup : ShardStep::kNone;
  if (!primary_leaves || backup_leaves) return ShardStep::kDropBackup;
  return shard.backup_is_partial() ? ShardStep::kNone : ShardStep::kPromote;
}

}  // namespace

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
