#include "worker/aggregator/device/gpu_budget.h"

#include <algorithm>
#include <string>

#include "common/job/job.h"
#include "common/wire/payload.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"
#include "numerics/encoder.h"
#include "worker/exchange/create_exchange.h"

namespace strata::worker {
namespace {

// Beyond that, sizes overflow 64 bits.
constexpr uint64_t kElementsMax = uint64_t{1} << 48;
// Offset of a payload after its verdict, and the maximum scratch space of a stream's kernels:
// DeviceEncoder and CudaStream determine the exact values, which are no larger.
constexpr uint64_t kBeforePayload = 64;
constexpr uint64_t kWorkSpaceBytesMax = 128 << 10;
// The values that ranks compare when a step begins: nccl::RankSums.
constexpr uint64_t kAgreedBytes = 3 * sizeof(uint64_t);

// One of `of` GPUs, with the number of the node's ranks on it.
struct GpuShare {
  uint64_t index, of;
  uint64_t ranks, ranks_of_node;
};

uint64_t Rounded(uint64_t elements, uint64_t multiple) {
  return (elements + multiple - 1) / multiple * multiple;
}

void AddEncoder(const proto::Job& job, uint64_t elements, const GpuShare& share,
                uint64_t chunk_elements, MemoryFormula* need) {
  const uint64_t chunks = (elements + chunk_elements - 1) / chunk_elements;
  if (share.index >= chunks) return;
  const uint64_t own = (chunks - share.index + share.of - 1) / share.of * chunk_elements;
  const auto vectors = static_cast<uint64_t>(
      numerics::StateVectors(numerics::MakeCompression(job.push(), kernels::Feedback::kResidual)));
  const wire::Codec codec = numerics::WireCodec(job.push());
  need->Add("not sent", vectors * Rounded(std::min(own, elements), 4) * sizeof(float));
  need->Add("encoded sums", 2 * (kBeforePayload +
                                 wire::EncodedBytesMax(codec, std::min(chunk_elements, elements))));
  if (codec == wire::Codec::kSparse) need->Add("codec's work space", kWorkSpaceBytesMax);
}

// Each rank's own, with NCCL.
void AddRanks(const proto::Job& job, uint64_t elements, const GpuShare& share,
              uint64_t chunk_elements, MemoryFormula* need) {
  const auto vectors =
      static_cast<uint64_t>(StateVectors(MakeOptimizerParams(job.optimizer()).kind));
  need->Add("weights, gradients, optimizer state",
            SaturatingProduct(share.ranks * (2 + vectors), Rounded(elements, 64) * sizeof(float)));
  if (DropsLost(job)) {
    need->Add("sums", SaturatingProduct(share.ranks, Rounded(elements, 64) * sizeof(float)));
  }
  if (chunk_elements == 0) return;
  const uint64_t chunks = (elements + chunk_elements - 1) / chunk_elements;
  const uint64_t steps = DropsLost(job) ? job.ranks() * sizeof(uint64_t) : 0;
  need->Add("verdicts", share.ranks * (chunks * sizeof(device::Verdict) + kAgreedBytes + steps));
}

MemoryFormula MemoryOf(const proto::Job& job, uint64_t elements, const GpuShare& share,
                       const proto::Placement& placement) {
  MemoryFormula need;
  if (job.device() != proto::Job::GPU || job.exchange() == proto::Job::NONE) return need;
  if (elements > kElementsMax) {
    need.Add("weights", UINT64_MAX);
    return need;
  }
  const uint64_t chunk_elements = placement.chunk_elements();
  if (job.exchange() == proto::Job::NCCL) {
    AddRanks(job, elements, share, chunk_elements, &need);
    return need;
  }
  const uint64_t arena = device::SharedAllocationBytes(elements * sizeof(float));
  need.Add("weights", arena);
  need.Add("gradients", SaturatingProduct(share.ranks, arena));
  if (chunk_elements == 0) return need;
  const uint64_t chunk = chunk_elements * sizeof(float);
  const uint64_t others = share.ranks_of_node - share.ranks;
  need.Add("encoded weights", chunk + sizeof(device::Verdict));
  if (job.node_sum() == proto::NodeSum::NCCL) {
    const uint64_t chunks = (elements + chunk_elements - 1) / chunk_elements;
    if (share.ranks_of_node > 1)
      need.Add("verdicts", share.ranks * chunks * sizeof(device::Verdict));
  } else if (others > 0) {
    need.Add("gradients of other GPUs", others * chunk);
  }
  if (TakesPayloads(job)) AddEncoder(job, elements, share, chunk_elements, &need);
  return need;
}

}  // namespace

std::map<uint32_t, MemoryFormula> MemoryByGpu(const proto::Job& job, uint64_t elements,
                                              const std::vector<uint32_t>& gpus,
                                              const proto::Placement& placement) {
  std::vector<uint32_t> used;  // in the order of their turns
  std::map<uint32_t, uint64_t> ranks;
  for (const uint32_t gpu : gpus) {
    if (++ranks[gpu] == 1) used.push_back(gpu);
  }
  std::map<uint32_t, MemoryFormula> needs;
  for (size_t i = 0; i < used.size(); ++i) {
    const GpuShare share = {i, used.size(), ranks[used[i]], gpus.size()};
    needs[used[i]] = MemoryOf(job, elements, share, placement);
  }
  return needs;
}

MemoryFormula MemoryOfGpus(const proto::Job& job, uint64_t elements, uint32_t gpus,
                           uint32_t local_ranks, const proto::Placement& placement) {
  std::vector<uint32_t> by_rank(local_ranks);
  for (uint32_t r = 0; r < local_ranks; ++r) by_rank[r] = r % gpus;
  MemoryFormula all;
  for (const auto& [gpu, need] : MemoryByGpu(job, elements, by_rank, placement)) {
    for (const MemoryFormula::Part& part : need.parts) {
      const auto found = std::find_if(all.parts.begin(), all.parts.end(),
                                      [&](const auto& one) { return one.what == part.what; });
      if (found == all.parts.end()) {
        all.parts.push_back(part);
      } else {
        found->bytes =
            found->bytes + part.bytes < part.bytes ? UINT64_MAX : found->bytes + part.bytes;
      }
    }
  }
  return all;
}

}  // namespace strata::worker
