// async(elastic): pushes are nodes' weights, and pull the center, which is kept here, towards them
// (elastic averaging: Zhang et al. 2015).
#include <cstdint>
#include <memory>

#include "absl/strings/str_format.h"
#include "server/shard/chunk/chunk_parts.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {
namespace {

class ElasticChunk final : public ChunkMode {
 public:
  explicit ElasticChunk(const ChunkParts& chunk) : chunk_(chunk), given_(chunk.nodes.size()) {}

  void OnSeed() override { given_.GiveToAll(chunk_.weights); }

  PushResult Take(const Push& push, Addend sum, std::vector<DueAnswer>* due) override {
    if (push.samples == 0 || sum.empty()) {
      chunk_.weights.Skip();
    } else {
      ApplyElasticPush(sum.bytes, push.samples);
    }
    return {};
  }

  bool MayAnswer(size_t node, uint64_t gate) const override { return true; }
  uint32_t StalenessOf(size_t node, uint64_t gate) const override {
    return chunk_.nodes[node].versions_behind;
  }
  void OnAnswered(size_t node) override { given_.GiveTo(node, chunk_.weights); }
  const WeightVersion* GivenTo(size_t node) const override { return &given_[node]; }

  void AddTo(ChunkCopy* copy) override { given_.AddTo(copy); }
  void Restore(ChunkCopyReader* reader) override { given_.Restore(reader); }

  size_t bytes() const override { return given_.bytes(chunk_.weights); }

 private:
  // e = a (x - c), c += e: c is the center, x are the node's weights; a comes from the update rule.
  void ApplyElasticPush(const Bytes& node_weights, uint32_t samples) {
    const size_t count = chunk_.weights.elements();
    const std::shared_ptr<float> distance = chunk_.pool.AllocateFloats(count);
    const float* const center = chunk_.weights.weights().floats();
    const float* const node = node_weights.floats();
    for (size_t i = 0; i < count; ++i) distance.get()[i] = center[i] - node[i];
    chunk_.weights.Apply(AsBytes(distance, count), 1.0f, samples,
                         {.damping = 1.0 / static_cast<double>(chunk_.nodes.size())});
  }

  const ChunkParts chunk_;
  GivenWeights given_;
};

class ElasticMode final : public ConsistencyMode {
 public:
  bool applies_on_arrival() const override { return true; }

  void AddNodeVersions(const ShardSize& size, MemoryFormula* need) const override {
    AddGivenWeights(size, need);
    need->Add("distance of a node", size.chunk_bytes);
  }

  std::unique_ptr<ChunkMode> CreateForChunk(const ChunkParts& chunk) const override {
    return std::make_unique<ElasticChunk>(chunk);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateElasticMode(const proto::Job& job,
                                                                   const NodeRanks& ranks) {
  const float moving_rate = job.consistency().async().elastic().moving_rate();
  if (moving_rate >= static_cast<float>(ranks.of_node.size())) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "consistency.async.elastic.moving_rate: %g, but divided by %d nodes it must be below 1",
        moving_rate, ranks.of_node.size()));
  }
  return std::make_unique<ElasticMode>();
}

}  // namespace strata::server
