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

// The memory of each of this node's GPUs that is promised to jobs: by formula, before they train.
// Threads: one.
class GpuLedger {
 public:
  explicit GpuLedger(const std::vector<proto::Gpu>& gpus);

  // Promises the job the memory that it needs on each GPU, by index, replacing its previous
  // promise. Errors, after which the job keeps what it had: ResourceExhausted, with the GPU,
  // formula, figure, other jobs' share and the total; FailedPrecondition (no such GPU).
  absl::Status Promise(JobId job, const std::map<uint32_t, MemoryFormula>& needs);
  // Unknown jobs are ignored.
  void Release(JobId job) { promised_.erase(job); }

  uint64_t limit_bytes() const;              // of all GPUs
  uint64_t promised_bytes() const;           // to all jobs
  uint64_t promised_bytes(JobId job) const;  // 0: none

 private:
  // Returns what is promised on the GPU to other jobs than this one.
  uint64_t PromisedToOthers(JobId job, uint32_t gpu) const;

  std::map<uint32_t, proto::Gpu> gpus_;                     // by index
  std::map<JobId, std::map<uint32_t, uint64_t>> promised_;  // by GPU
};

// Assigns this node's GPUs to the ranks of its jobs. Pure: it knows only their indices. Threads:
// one.
class GpuSlots {
 public:
  // Each of `gpus` takes this many ranks at once.
  GpuSlots(const std::vector<uint32_t>& gpus, uint32_t ranks_per_gpu);

  // Assigns one GPU to each of the job's local ranks, in order: always the one with the fewest
  // ranks so far, and the lowest of these, so that a job's ranks are spread over all. Errors:
  // Unavailable (taken by others, which may be about to end), FailedPrecondition (there are not
  // that many).
  absl::StatusOr<std::vector<uint32_t>> Take(JobId job, uint32_t ranks);
  // The job's GPUs; may be empty.
  std::vector<uint32_t> TakenBy(JobId job) const;
  // No process of the job is left. Jobs without GPUs are ignored.
  void Release(JobId job);

 private:
  uint32_t free() const;

  const uint32_t ranks_per_gpu_;
  std::map<uint32_t, uint32_t> ranks_;           // by GPU
  std::map<JobId, std::vector<uint32_t>> jobs_;  // by job
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_NODE_GPUS_H_
