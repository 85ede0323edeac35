#include "worker/agent/node_gpus.h"

#include <algorithm>
#include <utility>

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

GpuLedger::GpuLedger(const std::vector<proto::Gpu>& gpus) {
  for (const proto::Gpu& gpu : gpus) gpus_[gpu.index()] = gpu;
}

uint64_t GpuLedger::PromisedToOthers(JobId job, uint32_t gpu) const {
  uint64_t sum = 0;
  for (const auto& [other, by_gpu] : promised_) {
    const auto found = by_gpu.find(gpu);
    if (other != job && found != by_gpu.end()) sum += found->second;
  }
  return sum;
}

absl::Status GpuLedger::Promise(JobId job, const std::map<uint32_t, MemoryFormula>& needs) {
  std::map<uint32_t, uint64_t> promised;
  for (const auto& [index, need] : needs) {
    const auto found = gpus_.find(index);
    if (found == gpus_.end()) {
      return absl::FailedPreconditionError(absl::StrFormat("there is no GPU %d", index));
    }
    const proto::Gpu& gpu = found->second;
    const uint64_t others = PromisedToOthers(job, index);
    if (need.total() > gpu.memory_bytes() || others > gpu.memory_bytes() - need.total()) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "GPU %d (%s): it needs up to %s; other jobs are promised %s of its %s", index, gpu.name(),
          need.ToString(), BytesText(others), BytesText(gpu.memory_bytes())));
    }
    promised[index] = need.total();
  }
  promised_[job] = std::move(promised);
  return absl::OkStatus();
}

uint64_t GpuLedger::limit_bytes() const {
  uint64_t sum = 0;
  for (const auto& [index, gpu] : gpus_) sum += gpu.memory_bytes();
  return sum;
}

uint64_t GpuLedger::promised_bytes() const {
  uint64_t sum = 0;
  for (const auto& [job, by_gpu] : promised_) sum += promised_bytes(job);
  return sum;
}

uint64_t GpuLedger::promised_bytes(JobId job) const {
  const auto found = promised_.find(job);
  if (found == promised_.end()) return 0;
  uint64_t sum = 0;
  for (const auto& [gpu, bytes] : found->second) sum += bytes;
  return sum;
}

}  // namespace strata::worker
