#ifndef STRATA_WORKER_AGENT_GPU_LEDGER_H_
#define STRATA_WORKER_AGENT_GPU_LEDGER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/limits/memory_ledger.h"
#include "proto/control.pb.h"

namespace strata::worker {

// How much of the memory of each of this node's GPUs its jobs have been promised: by formula,
// before they train. Threads: one.
class GpuLedger {
 public:
  explicit GpuLedger(const std::vector<proto::Gpu>& gpus);

  // Promises the job what it needs of each GPU, by index, in place of what it had been promised.
  // Errors: ResourceExhausted, with the GPU, formula, figure, what other jobs have and what there
  // is; FailedPrecondition (no such GPU). The job then has what it had.
  absl::Status Promise(JobId job, const std::map<uint32_t, MemoryFormula>& needs);
  // Unknown jobs are fine.
  void Release(JobId job) { promised_.erase(job); }

  uint64_t limit_bytes() const;              // of all GPUs
  uint64_t promised_bytes() const;           // to all jobs
  uint64_t promised_bytes(JobId job) const;  // 0: none

 private:
  // GPUs that are lent to other jobs than this one.
  uint64_t PromisedToOthers(JobId job, uint32_t gpu) const;

  std::map<uint32_t, proto::Gpu> gpus_;                     // by index
  std::map<JobId, std::map<uint32_t, uint64_t>> promised_;  // by GPU
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_GPU_LEDGER_H_
