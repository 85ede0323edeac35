#include "server/shard/chunk/consistency_modes.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::server {

absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateConsistencyMode(const proto::Job& job,
                                                                       const NodeRanks& ranks) {
  const proto::Lazy& lazy = job.consistency().lazy();
  if (job.consistency().async().has_elastic()) return CreateElasticMode(job, ranks);
  if (job.consistency().has_async()) return CreateAsyncMode(job, ranks);
  if (lazy.quorum().nodes() > 0) return CreateQuorumMode(job, ranks);
  if (lazy.apply() == proto::Lazy::ON_ARRIVAL) return CreateGatedArrivalMode(job, ranks);
  return CreateClockedMode(job, ranks);
}

PushResult CheckProgress(const NodeProgress& node, uint64_t clock, uint64_t base_version,
                         uint64_t version) {
  const auto refuse = [](std::string why) {
    return RefusePush(wire::ErrorCode::kBeyondWindow, std::move(why));
  };
  if (clock > node.received) {
    return refuse(absl::StrFormat("clock %d, expected %d", clock, node.received));
  }
  if (node.retired) return refuse("the node has retired");
  if (node.waiting) return refuse("the push before is not answered");
  if (base_version <= version) return {};
  return refuse(absl::StrFormat("base_version %d of %d", base_version, version));
}

void AddGivenWeights(const ShardSize& size, MemoryFormula* need) {
  need->Add(absl::StrFormat("nodes' versions %d x %s", size.nodes, BytesText(size.own_bytes)),
            SaturatingProduct(size.nodes, size.own_bytes));
}

void AddWaitingPushes(const ShardSize& size, uint64_t leaves, uint64_t saved, MemoryFormula* need) {
  const uint64_t waiting =
      SaturatingProduct(SaturatingProduct(size.nodes, size.window) - saved, size.chunk_bytes);
  const uint64_t one_clock = SaturatingProduct(leaves, size.own_bytes);
  need->Add(waiting < one_clock
                ? absl::StrFormat("held sums (%d x %d - %d) x %s", size.nodes, size.window, saved,
                                  BytesText(size.chunk_bytes))
                : absl::StrFormat("held sums %d x %s", leaves, BytesText(size.own_bytes)),
            std::min(waiting, one_clock));
}

void ApplyClock(const ChunkParts& chunk, const Bytes& sum, uint64_t samples, double rate) {
  if (samples == 0) return chunk.weights.Skip();
  chunk.weights.Apply(sum, static_cast<float>(1.0 / static_cast<double>(samples)), samples,
                      {.said = rate});
}

}  // namespace strata::server
