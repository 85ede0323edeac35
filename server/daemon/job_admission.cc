#include "server/daemon/job_admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "common/job/connections.h"
#include "common/job/placement.h"
#include "common/os/process_use.h"
#include "server/shard/shard_budget.h"

namespace strata::server {
JobAdmission::JobAdmission(const ServerLimits& limits)
    : connections_max_(limits.connections_max),
      ledger_(limits.memory_bytes > 0 ? limits.memory_bytes : DefaultMemoryLimitBytes()) {}

uint32_t JobAdmission::Admitted::connections() const {
  std::map<size_t, uint32_t> copies_on;
  uint32_t most = 1;
  for (const Copy& copy : copies) most = std::max(most, ++copies_on[copy.thread]);
  return nodes * of_each * most;
}

MemoryFormula JobAdmission::Admitted::need() const {
  MemoryFormula need;
  for (const Copy& copy : copies) need.Add(copy.need);
  return need;
}

JobAdmission::Admitted JobAdmission::Empty(const proto::JobRecord& record) {
  return {.nodes = static_cast<uint32_t>(record.view().nodes_size()),
          .of_each = ShardConnections(record),
          .chunk_bytes = uint64_t{record.placement().chunk_elements()} * sizeof(float),
          .copies = {}};
}

absl::Status JobAdmission::AddCopy(const proto::JobRecord& record, size_t thread, ShardId shard,
                                   Admitted* to) {
  absl::StatusOr<MemoryFormula> need = ShardMemoryNeed(record, shard);
  if (!need.ok()) return need.status();
  to->copies.push_back({thread, shard, *std::move(need)});
  return absl::OkStatus();
}

absl::Status JobAdmission::Take(JobId job, Admitted admitted) {
  uint32_t others = 0;
  for (const auto& [id, other] : jobs_) others += id == job ? 0 : other.connections();
  if (others + admitted.connections() > connections_max_) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "its %d nodes need %s each at every shard; other jobs have %d of the limit of "
        "%d (--connections)",
        admitted.nodes, Counted(admitted.of_each, "connection"), others, connections_max_));
  }
  if (absl::Status promised = ledger_.Promise(job, admitted.need()); !promised.ok()) {
    return promised;
  }
  jobs_[job] = std::move(admitted);
  return absl::OkStatus();
}

absl::Status JobAdmission::Admit(const proto::InstallJob& install) {
  const proto::JobRecord& record = install.record();
  Admitted admitted = Empty(record);
  absl::Status status;
  for (int thread = 0; status.ok() && thread < install.own_shards_size(); ++thread) {
    const uint32_t shard = install.own_shards(thread);
    if (shard == kNoShard) continue;
    status = AddCopy(record, static_cast<size_t>(thread), ShardId(shard), &admitted);
  }
  for (const proto::OwnBackup& backup : install.own_backups()) {
    if (!status.ok()) break;
    status = AddCopy(record, backup.thread(), ShardId(backup.shard()), &admitted);
  }
  return status.ok() ? Take(JobId(record.job_id()), std::move(admitted)) : status;
}

absl::Status JobAdmission::AdmitBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const JobId job(record.job_id());
  const ShardId shard(install.backup().shard());
  const auto known = jobs_.find(job);
  Admitted admitted = known == jobs_.end() ? Empty(record) : known->second;
  std::erase_if(admitted.copies, [shard](const Copy& copy) { return copy.shard == shard; });
  absl::Status added = AddCopy(record, install.backup().thread(), shard, &admitted);
  return added.ok() ? Take(job, std::move(admitted)) : added;
}

void JobAdmission::Release(JobId job) {
  ledger_.Release(job);
  jobs_.erase(job);
}

void JobAdmission::ReleaseShard(JobId job, ShardId shard) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return;
  std::vector<Copy>& copies = known->second.copies;
  std::erase_if(copies, [shard](const Copy& copy) { return copy.shard == shard; });
  if (copies.empty()) return Release(job);
  ledger_.Promise(job, known->second.need()).IgnoreError();  // less than it had
}

uint64_t JobAdmission::LimitOf(JobId job, size_t shard) const {
  const auto found = jobs_.find(job);
  uint64_t limit = 0;
  if (found == jobs_.end()) return limit;
  for (const Copy& copy : found->second.copies) {
    if (copy.thread == shard) limit += copy.need.total();
  }
  return limit;
}

uint64_t JobAdmission::chunk_bytes_max() const {
  uint64_t bytes = 0;
  for (const auto& [id, job] : jobs_) bytes = std::max(bytes, job.chunk_bytes);
  return bytes;
}

}  // namespace strata::server
