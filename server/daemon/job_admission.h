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

// Knows which jobs a server has room for: memory by formula (shard_budget.h) and connections, of
// which every node of a job has at most as many per shard as the job says. Threads: one.
class JobAdmission {
 public:
  explicit JobAdmission(const ServerLimits& limits);

  // Errors: ResourceExhausted, with formula or sum, figure and limit; those of ShardMemoryNeed.
  absl::Status Admit(const proto::InstallJob& install);
  // A second copy of one more shard of a job, which may be here already; in place of another copy
  // of it. Errors: likewise; the job then has what it had.
  absl::Status AdmitBackup(const proto::InstallBackup& install);
  // Unknown jobs and shards are fine.
  void Release(JobId job);
  void ReleaseShard(JobId job, ShardId shard);
  // Returns whether the job has a shard here.
  bool Knows(JobId job) const { return jobs_.contains(job); }

  // Returns the memory that the job may take, by formula, of the daemon's shard `shard`; 0 where
  // the job is not on it.
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
    uint32_t of_each = 0;  // connections to a shard
    uint64_t chunk_bytes = 0;
    std::vector<Copy> copies;

    // At each of the daemon's shards. A second copy may become the first one: then its nodes
    // connect to it, too.
    uint32_t connections() const;
    MemoryFormula need() const;
  };

  static Admitted Empty(const proto::JobRecord& record);
  static absl::Status AddCopy(const proto::JobRecord& record, size_t thread, ShardId shard,
                              Admitted* to);
  // Promises what it needs, if there is room. Errors: ResourceExhausted.
  absl::Status Take(JobId job, Admitted admitted);

  const uint32_t connections_max_;
  MemoryLedger ledger_;
  std::map<JobId, Admitted> jobs_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_JOB_ADMISSION_H_
