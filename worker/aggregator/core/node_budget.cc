#include "worker/aggregator/core/node_budget.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/image/cut_collector.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/job.h"
#include "common/job/trace_log.h"
#include "common/os/limits.h"
#include "numerics/encoder.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/create_exchange.h"

namespace strata::worker {
namespace {

// `window`: bytes of the chunks in flight.
void AddRing(const proto::Job& job, uint32_t nodes, uint64_t arena, uint64_t window,
             MemoryFormula* need) {
  const auto vectors = static_cast<uint64_t>(StateVectors(SharedOptimizer(job).kind)) +
                       (IsEncoded(job.push()) ? 1 : 0);
  const uint64_t own = arena / std::max<uint32_t>(1, nodes) + 1;
  need->Add(absl::StrFormat("own slices %d x %s", 1 + vectors, BytesText(own)),
            (1 + vectors) * own);
  if (job.has_checkpoint()) {
    need->Add(
        absl::StrFormat("checkpoints %d x %d x %s", kCutsHeldMax, 1 + vectors, BytesText(own)),
        SaturatingProduct(kCutsHeldMax * (1 + vectors), own));
  }
  need->Add(absl::StrFormat("under way 4 x %s", BytesText(std::min(window, arena))),
            4 * std::min(window, arena));
  if (!DropsLost(job)) return;
  need->Add(absl::StrFormat("kept for a new ring 2 x %s", BytesText(arena)),
            SaturatingProduct(2, arena));
}

// Optimizer state of weights that the node itself owns, plus the updates that elements have missed.
uint64_t OwnVectors(const proto::Job& job) {
  const OptimizerKind kind = MakeOptimizerParams(job.optimizer()).kind;
  const bool may_miss = AppliesOnNodes(job) && job.has_program() && MayMarkAbsent(job);
  return StateVectors(kind) + uint64_t{may_miss && CountsUpdates(kind)};
}

void AddLayers(const proto::Job& job, uint64_t arena, uint64_t chunk, MemoryFormula* need) {
  const auto own_vectors = OwnVectors(job);
  if (AppliesOnNodes(job)) {
    need->Add(absl::StrFormat("optimizer of its own (3 + %d) x %s", own_vectors, BytesText(arena)),
              SaturatingProduct(3 + own_vectors, arena));
  } else if (job.optimizer().clip_norm() > 0) {
    need->Add(absl::StrFormat("clipped gradients 2 x %s", BytesText(arena)),
              SaturatingProduct(2, arena));
  }
  if (NodesMakeLocalSteps(job)) {
    const uint64_t own = job.consistency().lazy().has_significance() ? 3 : 2;
    need->Add(absl::StrFormat("local steps (%d + %d) x %s", own, own_vectors, BytesText(arena)),
              SaturatingProduct(own + own_vectors, arena));
    need->Add("local chunk in update", chunk);
  }
  if (job.consistency().lazy().double_buffering()) {
    need->Add(absl::StrFormat("second buffer 2 x %s", BytesText(arena)),
              SaturatingProduct(2, arena));
  }
}

void AddPushEncoder(const proto::Job& job, uint64_t arena, uint64_t chunk, MemoryFormula* need) {
  const numerics::CompressionOptions push =
      numerics::MakeCompression(job.push(), kernels::Feedback::kResidual);
  const auto vectors = static_cast<uint64_t>(numerics::StateVectors(push));
  if (vectors == 0) return;
  need->Add(absl::StrFormat("not sent %d x %s", vectors, BytesText(arena)),
            SaturatingProduct(vectors, arena));
  if (numerics::WireCodec(job.push()) != wire::Codec::kSparse) return;
  need->Add(absl::StrFormat("codec's work space 4 x %s", BytesText(chunk)), 4 * chunk);
}

// Vectors that are copied for each cut and kept until it is written.
void AddCuts(const proto::Job& job, uint64_t arena, MemoryFormula* need) {
  if (!job.has_checkpoint() || !NodesKeepState(job)) return;
  const bool by_servers = job.exchange() == proto::Job::PARAMETER_SERVER;
  const uint64_t unsent = by_servers ? numerics::StateVectors(numerics::MakeCompression(
                                           job.push(), kernels::Feedback::kResidual))
                                     : 0;
  const uint64_t own = OwnVectors(job);
  uint64_t vectors = unsent;
  if (AppliesOnNodes(job)) vectors += 1 + own;
  if (NodesMakeLocalSteps(job)) vectors += 2 + own;
  if (job.consistency().lazy().double_buffering()) {
    ++vectors;
    need->Add(absl::StrFormat("weights of a checkpoint %s", BytesText(arena)), arena);
  }
  need->Add(absl::StrFormat("checkpoints %d x %d x %s", kCutsHeldMax, vectors, BytesText(arena)),
            SaturatingProduct(kCutsHeldMax * vectors, arena));
}

// Weights, gradients and the counts beside them; with device: GPU the gradients' pages are never
// touched.
void AddSharedMemory(const proto::Job& job, uint64_t elements, uint32_t local_ranks,
                     MemoryFormula* need) {
  const NodeOffsets offsets(elements, local_ranks);
  const std::string arena = BytesText(elements * sizeof(float));
  if (job.device() == proto::Job::GPU) {
    need->Add(absl::StrFormat("shared memory %s and its counts", arena),
              offsets.total - local_ranks * offsets.arena_stride);
  } else {
    need->Add(absl::StrFormat("shared memory (1 + %d) x %s and its counts", local_ranks, arena),
              offsets.total);
  }
}

}  // namespace

MemoryFormula NodeMemoryNeed(const proto::Job& job, uint32_t nodes, uint64_t elements,
                             uint32_t local_ranks, const proto::Placement& placement) {
  // Beyond that, offsets overflow 64 bits.
  constexpr uint64_t kElementsMax = uint64_t{1} << 48;
  MemoryFormula need;
  const uint64_t arena = SaturatingProduct(elements, sizeof(float));
  if (elements > kElementsMax) {
    need.Add("shared memory", UINT64_MAX);
    return need;
  }
  AddSharedMemory(job, elements, local_ranks, &need);
  if (placement.shard_of_bucket_size() > 0) {
    const uint64_t step = RowBytesPerStep(job);
    const uint32_t ahead = RowsLookahead(job);
    need.Add(absl::StrFormat("rows %d x %s and (2 + %d + 3 x %d) x %s", local_ranks,
                             BytesText(kRowSlotBytes), ahead, local_ranks, BytesText(step)),
             local_ranks * kRowSlotBytes + SaturatingProduct(2 + ahead + 3 * local_ranks, step));
  }
  need.Add(absl::StrFormat("first weights %d x %s", local_ranks, BytesText(arena)),
           SaturatingProduct(local_ranks, arena));
  if (IsTraced(job)) need.Add("trace", kTraceLogBytes);
  if (job.exchange() == proto::Job::NCCL) return need;
  const bool on_devices = job.device() == proto::Job::GPU;
  if (on_devices) {
    need.Add(absl::StrFormat("pinned sums and answers 2 x %s", BytesText(arena)),
             SaturatingProduct(2, arena));
  }
  const uint64_t shards = placement.shard_endpoints_size();
  const uint64_t chunk = uint64_t{placement.chunk_elements()} * sizeof(float);
  const uint64_t w = std::max<uint32_t>(1, job.window());
  if (chunk > 0) AddLayers(job, arena, chunk, &need);
  if (chunk > 0) AddCuts(job, arena, &need);
  if (job.exchange() == proto::Job::RING && chunk > 0) {
    AddRing(job, nodes, arena, SaturatingProduct(w, chunk), &need);
  }
  if (shards == 0) return need;
  if (!on_devices || !TakesPayloads(job)) AddPushEncoder(job, arena, chunk, &need);
  const uint64_t one_way = std::min(SaturatingProduct(shards * w, chunk), arena);
  if (on_devices) {
    need.Add(absl::StrFormat("answers %d x %d x %s", shards, w, BytesText(chunk)), one_way);
  } else {
    need.Add(absl::StrFormat("messages 2 x %d x %d x %s", shards, w, BytesText(chunk)),
             2 * one_way);
  }
  return need;
}

}  // namespace strata::worker
