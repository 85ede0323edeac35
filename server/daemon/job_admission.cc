#include "server/daemon/job_admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "common/job/exchange/connections.h"
#include "common/job/exchange/own_shards.h"
#include "common/limits/process_use.h"
#include "server/shard/shard_budget.h"

namespace strata::server {
JobAdmission::JobAdmission(const ServerLimits& limits)
    : connections_max_(limits.connections_max),
      ledger_(limits.memory_bytes > 0 ? limits.memory_bytes : DefaultMemoryLimitBytes()) {}

absl::Status JobAdmission::Admit(const proto::InstallJob& install) {
  const proto::JobRecord& record = install.record();
  const JobId job(record.job_id());
  Admitted admitted;
  const auto nodes = static_cast<uint32_t>(record.view().nodes_size());
  const uint32_t of_each = JobConnections(record.job());
  // A second copy may become the first one: then its nodes connect to it, too.
  std::vector<uint32_t> copies(install.own_shards_size(), 1);
  for (const proto::OwnBackup& backup : install.own_backups()) {
    if (backup.thread() < copies.size()) ++copies[backup.thread()];
  }
  const uint32_t most = copies.empty() ? 1 : *std::max_element(copies.begin(), copies.end());
  admitted.connections = nodes * of_each * most;
  admitted.chunk_bytes = uint64_t{record.placement().chunk_elements()} * sizeof(float);
  uint64_t others = 0;
  for (const auto& [id, other] : jobs_) others += id == job ? 0 : other.connections;
  if (others + admitted.connections > connections_max_) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "its %d nodes need %s each at every shard; other jobs have %d of the limit of "
        "%d (--connections)",
        nodes, Counted(of_each, "connection"), others, connections_max_));
  }
  MemoryFormula need;
  for (uint32_t shard : install.own_shards()) {
    admitted.limits.push_back(0);
    if (shard == kNoShard) continue;
    const absl::StatusOr<MemoryFormula> of_shard = ShardMemoryNeed(record, ShardId(shard));
    if (!of_shard.ok()) return of_shard.status();
    admitted.limits.back() = of_shard->total();
    need.Add(*of_shard);
  }
  for (const proto::OwnBackup& backup : install.own_backups()) {
    const absl::StatusOr<MemoryFormula> of_shard = ShardMemoryNeed(record, ShardId(backup.shard()));
    if (!of_shard.ok()) return of_shard.status();
    if (backup.thread() < admitted.limits.size()) {
      admitted.limits[backup.thread()] += of_shard->total();
    }
    need.Add(*of_shard);
  }
  if (absl::Status promised = ledger_.Promise(job, need); !promised.ok()) return promised;
  jobs_[job] = std::move(admitted);
  return absl::OkStatus();
}

void JobAdmission::Release(JobId job) {
  ledger_.Release(job);
  jobs_.erase(job);
}

uint64_t JobAdmission::LimitOf(JobId job, size_t shard) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() || shard >= found->second.limits.size() ? 0
                                                                      : found->second.limits[shard];
}

uint64_t JobAdmission::chunk_bytes_max() const {
  uint64_t bytes = 0;
  for (const auto& [id, job] : jobs_) bytes = std::max(bytes, job.chunk_bytes);
  return bytes;
}

}  // namespace strata::server
