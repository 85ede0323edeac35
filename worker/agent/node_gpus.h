#ifndef STRATA_WORKER_AGENT_NODE_GPUS_H_
#define STRATA_WORKER_AGENT_NODE_GPUS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/os/memory_ledger.h"
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

// Allots this node's GPUs to the ranks of its jobs. Pure: it knows them by their indices
// only. Threads: one.
class GpuSlots {
 public:
  // Each of `gpus` takes so many ranks at once.
  GpuSlots(const std::vector<uint32_t>& gpus, uint32_t ranks_per_gpu);

  // One GPU for each of the job's local ranks, in their order: always the one that has the fewest
  // ranks by then, of these the lowest; so a job's ranks spread over all. Errors: Unavailable
  // (taken by others, who may just be ending), FailedPrecondition (there are not so many).
  absl::StatusOr<std::vector<uint32_t>> Take(JobId job, uint32_t ranks);
  // The job's GPUs. Empty: none.
  std::vector<uint32_t> TakenBy(JobId job) const;
  // No process of the job is left. A job that holds none is fine.
  void Release(JobId job);

 private:
  uint32_t free() const;

  const uint32_t ranks_per_gpu_;
  std::map<uint32_t, uint32_t> ranks_;           // by GPU
  std::map<JobId, std::vector<uint32_t>> jobs_;  // what each has taken
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_NODE_GPUS_H_
