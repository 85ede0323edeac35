#ifndef STRATA_WORKER_AGENT_GPU_SLOTS_H_
#define STRATA_WORKER_AGENT_GPU_SLOTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"

namespace strata::worker {

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
  // What it has taken. Empty: nothing.
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

#endif  // STRATA_WORKER_AGENT_GPU_SLOTS_H_
