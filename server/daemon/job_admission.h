#ifndef STRATA_SERVER_DAEMON_JOB_ADMISSION_H_
#define STRATA_SERVER_DAEMON_JOB_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/os/limits.h"
#include "common/os/memory_ledger.h"
#include "proto/control.pb.h"

namespace strata::server {

// Decides which jobs a server has room for: memory by formula (shard_budget.h), and connections, of
// which each node of a job has at most the job's number per shard. Threads: one.
class JobAdmission {
 public:
  explicit JobAdmission(const ServerLimits& limits);

  // Errors: ResourceExhausted, with formula or sum, figure and limit; those of ShardMemoryNeed.
  absl::Status Admit(const proto::InstallJob& install);
  // Admits a backup of one more shard of a job, which may be here already. It replaces another copy
  // of that shard. Errors: as Admit; the job then keeps what it had.
  absl::Status AdmitBackup(const proto::InstallBackup& install);
  // Unknown jobs and shards are ignored.
  void Release(JobId job);
  void ReleaseShard(JobId job, ShardId shard);
  // Returns whether the job has a shard here.
  bool Knows(JobId job) const { return jobs_.contains(job); }

  // Returns the memory limit of the job, by formula, on the daemon's shard `shard`; 0 if the job is
  // not on it.
  uint64_t LimitOf(JobId job, size_t shard) const;
  uint64_t promised_bytes() const { return ledger_.promised_bytes(); }
  uint64_t memory_limit_bytes() const { return ledger_.limit_bytes(); }
  // The largest chunk of all jobs.
  uint64_t chunk_bytes_max() const;

 private:
  struct Copy {
    size_t thread = 0;  // the daemon's shard
    ShardId shard;      // of the job
    MemoryFormula need;
  };
  struct Admitted {
    uint32_t nodes = 0;
    uint32_t of_each = 0;  // connections to a shard per node
    uint64_t chunk_bytes = 0;
    std::vector<Copy> copies;

    // At each of the daemon's shards. A backup may become the primary: then its nodes connect to
    // it, too.
    uint32_t connections() const;
    MemoryFormula need() const;
  };

  static Admitted Empty(const proto::JobRecord& record);
  static absl::Status AddCopy(const proto::JobRecord& record, size_t thread, ShardId shard,
                              Admitted* to);
  // Reserves what the job needs, if there is room. Errors: ResourceExhausted.
  absl::Status Take(JobId job, Admitted admitted);

  const uint32_t connections_max_;
  MemoryLedger ledger_;
  std::map<JobId, Admitted> jobs_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_JOB_ADMISSION_H_
