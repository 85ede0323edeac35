#include "tests/sim/layer_model.h"

#include <cstring>

#include "absl/strings/str_format.h"

namespace strata::sim {

namespace {

uint64_t StepsOf(const proto::JobRecord& record) {
  const proto::Consistency& consistency = record.job().consistency();
  return consistency.has_async() ? consistency.async().elastic().every_steps()
                                 : consistency.lazy().local_steps();
}

float PullOf(const proto::JobRecord& record) {
  if (!record.job().consistency().async().has_elastic()) return 0;
  const double a =
      record.job().consistency().async().elastic().moving_rate() / record.view().nodes_size();
  return static_cast<float>(a / (1 - a));
}

}  // namespace

LayerModel::LayerModel(const proto::JobRecord& record, uint64_t steps)
    : record_(record), steps_(steps), local_steps_(StepsOf(record)), pull_(PullOf(record)) {
  for (const proto::LogicalNode& node : record.view().nodes()) ranks_ += node.ranks();
}

void LayerModel::OnNodeStart(uint32_t node, uint32_t incarnation) {
  processes_[{node, incarnation}].clear();
}

void LayerModel::OnFirstWeights(ChunkId chunk, const std::vector<float>& weights) {
  first_weights_[chunk.value()] = weights;
}

LayerModel::Push LayerModel::OnSum(uint32_t node, uint32_t incarnation, ChunkId id, uint64_t step,
                                   uint32_t samples, absl::Span<const float> sum) {
  const std::vector<float> gradients(sum.begin(), sum.end());
  if (!has_local_steps()) return {.clock = step, .samples = samples, .values = gradients};
  const std::vector<float>& first = first_weights_.at(id.value());
  const auto [at, is_new] =
      processes_.at({node, incarnation})
          .try_emplace(id.value(), Chunk{ReferenceOptimizer(record_, id), first, first});
  Chunk& chunk = at->second;
  const proto::LogicalNode& self = record_.view().nodes(static_cast<int>(node));
  chunk.optimizer.Update(gradients, samples, uint64_t{samples} * ranks_ / self.ranks(), 1.0,
                         &chunk.local);
  chunk.samples += samples;
  if (!EndsRound(step) && step + 1 < steps_) return {};
  chunk.push = {.clock = RoundOf(step), .samples = chunk.samples};
  if (is_elastic()) chunk.push.values = chunk.local;
  if (is_elastic()) return chunk.push;
  for (size_t i = 0; i < chunk.local.size(); ++i) {
    const float change = chunk.start[i] - chunk.local[i];
    chunk.push.values.push_back(change * static_cast<float>(chunk.samples));
  }
  return chunk.push;
}

std::string LayerModel::OnTaken(uint32_t node, uint32_t incarnation, ChunkId id, uint64_t step,
                                absl::Span<const float> weights) {
  if (!has_local_steps()) return "";
  Chunk& chunk = processes_.at({node, incarnation}).at(id.value());
  if (EndsRound(step)) {
    std::string wrong;
    if (is_elastic()) wrong = CheckMeeting(chunk, node, id, RoundOf(step), weights);
    chunk.local.assign(weights.begin(), weights.end());
    chunk.start = chunk.local;
    chunk.samples = 0;
    return wrong;
  }
  const bool same = weights.size() == chunk.local.size() &&
                    std::memcmp(weights.data(), chunk.local.data(), weights.size() * 4) == 0;
  return same ? "" : "other weights than the model's";
}

void LayerModel::OnAnswer(uint32_t node, ChunkId chunk, uint64_t round,
                          absl::Span<const float> weights) {
  if (!is_elastic()) return;
  centers_[{node, chunk.value(), round}].emplace_back(weights.begin(), weights.end());
}

std::string LayerModel::CheckMeeting(const Chunk& chunk, uint32_t node, ChunkId id, uint64_t round,
                                     absl::Span<const float> weights) const {
  const auto told = centers_.find({node, id.value(), round});
  if (told == centers_.end()) return "nobody has told it a center";
  for (const std::vector<float>& center : told->second) {
    std::vector<float> own = chunk.local;
    for (size_t i = 0; i < own.size(); ++i) own[i] -= pull_ * (own[i] - center[i]);
    const bool same = own.size() == weights.size() &&
                      std::memcmp(own.data(), weights.data(), weights.size() * 4) == 0;
    if (same) return "";
  }
  return "it has not met a center that it was told";
}

std::string LayerModel::CheckPush(const wire::Frame& push) const {
  const wire::Header& header = push.header;
  if (!has_local_steps() || header.codec != wire::Codec::kNone) return "";
  const Push& expected = processes_.at({header.node, header.incarnation}).at(header.chunk).push;
  if (header.clock != expected.clock || header.sample_count != expected.samples) {
    return absl::StrFormat("clock %d of %d samples, not %d of %d", header.clock,
                           header.sample_count, expected.clock, expected.samples);
  }
  const size_t bytes = expected.values.size() * sizeof(float);
  const bool same = push.payload.size() == bytes &&
                    std::memcmp(push.payload.data(), expected.values.data(), bytes) == 0;
  return same ? "" : "another change than the model's";
}

}  // namespace strata::sim
