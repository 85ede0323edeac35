#include "worker/agent/gpu_slots.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"

namespace strata::worker {

GpuSlots::GpuSlots(const std::vector<uint32_t>& gpus, uint32_t ranks_per_gpu)
    : ranks_per_gpu_(ranks_per_gpu) {
  for (const uint32_t gpu : gpus) ranks_[gpu] = 0;
}

uint32_t GpuSlots::free() const {
  uint32_t free = 0;
  for (const auto& [gpu, ranks] : ranks_) free += ranks_per_gpu_ - ranks;
  return free;
}

absl::StatusOr<std::vector<uint32_t>> GpuSlots::Take(JobId job, uint32_t ranks) {
  const uint64_t all = uint64_t{ranks_per_gpu_} * ranks_.size();
  if (ranks > all) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the job needs %s, this worker has %d", Counted(ranks, "GPU slot"), all));
  }
  if (ranks > free()) {
    return absl::UnavailableError(absl::StrFormat("the job needs %s, %d of %d are free",
                                                  Counted(ranks, "GPU slot"), free(), all));
  }
  std::vector<uint32_t>& taken = jobs_[job];
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto least = std::min_element(
        ranks_.begin(), ranks_.end(),
        [](const auto& one, const auto& other) { return one.second < other.second; });
    ++least->second;
    taken.push_back(least->first);
  }
  return taken;
}

std::vector<uint32_t> GpuSlots::TakenBy(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::vector<uint32_t>() : found->second;
}

void GpuSlots::Release(JobId job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  for (const uint32_t gpu : found->second) --ranks_[gpu];
  jobs_.erase(found);
}

}  // namespace strata::worker
