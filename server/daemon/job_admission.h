#ifndef STRATA_SERVER_DAEMON_JOB_ADMISSION_H_
#define STRATA_SERVER_DAEMON_JOB_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/limits/limits.h"
#include "common/limits/memory_ledger.h"
#include "proto/control.pb.h"

namespace strata::server {

// Knows which jobs a server has room for: memory by formula (shard_budget.h) and connections, of
// which every node of a job has at most as many per shard as the job says. Threads: one.
class JobAdmission {
 public:
  explicit JobAdmission(const ServerLimits& limits);

  // Errors: ResourceExhausted, with formula or sum, figure and limit; those of ShardMemoryNeed.
  absl::Status Admit(const proto::InstallJob& install);
  // Unknown jobs are fine.
  void Release(JobId job);

  // Returns the memory that the job may take, by formula, of the daemon's shard `shard`; 0 where
  // the job is not on it.
  uint64_t LimitOf(JobId job, size_t shard) const;
  uint64_t promised_bytes() const { return ledger_.promised_bytes(); }
  uint64_t memory_limit_bytes() const { return ledger_.limit_bytes(); }
  // The largest chunk of all jobs.
  uint64_t chunk_bytes_max() const;

 private:
  struct Admitted {
    uint32_t connections = 0;  // at each shard
    uint64_t chunk_bytes = 0;
    std::vector<uint64_t> limits;  // by the daemon's shard
  };

  const uint32_t connections_max_;
  MemoryLedger ledger_;
  std::map<JobId, Admitted> jobs_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_JOB_ADMISSION_H_
