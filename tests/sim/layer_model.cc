#include "tests/sim/layer_model.h"

#include <algorithm>
#include <cmath>
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
    : record_(record),
      steps_(steps),
      local_steps_(StepsOf(record)),
      pull_(PullOf(record)),
      threshold_(record.job().consistency().lazy().significance().threshold()) {
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
  if (pull_ > 0) chunk.push.values = chunk.local;
  if (pull_ > 0) return chunk.push;
  for (size_t i = 0; i < chunk.local.size(); ++i) {
    const float change = chunk.start[i] - chunk.local[i];
    chunk.push.values.push_back(change * static_cast<float>(chunk.samples));
  }
  if (threshold_ > 0 && EndsRound(step)) KeepInsignificant(&chunk);
  return chunk.push;
}

void LayerModel::KeepInsignificant(Chunk* chunk) const {
  const auto limit =
      static_cast<float>(threshold_ / std::sqrt(static_cast<double>(chunk->push.clock) + 1));
  std::vector<float> pushed = chunk->push.values, unsent;
  size_t significant = 0;
  for (size_t i = 0; i < pushed.size(); ++i) {
    const float change = chunk->start[i] - chunk->local[i];
    const bool is_significant = std::abs(change) > limit * std::abs(chunk->start[i]);
    if (is_significant) ++significant;
    if (!is_significant) pushed[i] = 0.0f;
    unsent.push_back(is_significant ? 0.0f : change);
  }
  if (significant > std::max<size_t>(1, (pushed.size() - 1) / 2)) return;
  chunk->push.values = pushed;
  chunk->unsent = unsent;
}

std::string LayerModel::OnTaken(uint32_t node, uint32_t incarnation, ChunkId id, uint64_t step,
                                absl::Span<const float> weights) {
  if (!has_local_steps()) return "";
  Chunk& chunk = processes_.at({node, incarnation}).at(id.value());
  if (EndsRound(step)) {
    if (is_own()) {
      const std::string wrong = TakeOwn(&chunk, node, id, RoundOf(step), weights);
      if (step + 1 == steps_ && has_rest()) PushRest(&chunk);
      return wrong;
    }
    chunk.local.assign(weights.begin(), weights.end());
    chunk.start = chunk.local;
    chunk.samples = 0;
    return "";
  }
  const bool same = weights.size() == chunk.local.size() &&
                    std::memcmp(weights.data(), chunk.local.data(), weights.size() * 4) == 0;
  return same ? "" : "other weights than the model's";
}

// What is left counts as the round did.
void LayerModel::PushRest(Chunk* chunk) const {
  ++chunk->push.clock;
  for (size_t i = 0; i < chunk->local.size(); ++i) {
    const float change = chunk->start[i] - chunk->local[i];
    chunk->push.values[i] = change * static_cast<float>(chunk->push.samples);
  }
}

void LayerModel::OnAnswer(uint32_t node, ChunkId chunk, uint64_t round,
                          absl::Span<const float> weights) {
  if (is_own()) told_[{node, chunk.value(), round}].emplace_back(weights.begin(), weights.end());
}

std::vector<float> LayerModel::Own(const Chunk& chunk, const std::vector<float>& told) const {
  std::vector<float> own = told;
  for (size_t i = 0; i < own.size(); ++i) {
    if (pull_ > 0) own[i] = chunk.local[i] - pull_ * (chunk.local[i] - told[i]);
    if (!chunk.unsent.empty()) own[i] -= chunk.unsent[i];
  }
  return own;
}

std::string LayerModel::TakeOwn(Chunk* chunk, uint32_t node, ChunkId id, uint64_t round,
                                absl::Span<const float> weights) const {
  const auto told = told_.find({node, id.value(), round});
  if (told == told_.end()) return "nobody has told it any";
  for (const std::vector<float>& one : told->second) {
    const std::vector<float> own = Own(*chunk, one);
    const bool same = own.size() == weights.size() &&
                      std::memcmp(own.data(), weights.data(), weights.size() * 4) == 0;
    if (!same) continue;
    chunk->local = own;
    chunk->start = one;
    chunk->unsent.clear();
    chunk->samples = 0;
    return "";
  }
  return "other weights than follow from those that it was told";
}

std::string LayerModel::CheckPush(const wire::Header& header,
                                  const std::vector<float>& values) const {
  const bool is_sparse = header.codec == wire::Codec::kSparse && threshold_ > 0;
  if (!has_local_steps() || (header.codec != wire::Codec::kNone && !is_sparse)) return "";
  const Push& expected = processes_.at({header.node, header.incarnation}).at(header.chunk).push;
  if (header.clock != expected.clock || header.sample_count != expected.samples) {
    return absl::StrFormat("clock %d of %d samples, not %d of %d", header.clock,
                           header.sample_count, expected.clock, expected.samples);
  }
  const auto zeros = std::count(expected.values.begin(), expected.values.end(), 0.0f);
  const size_t sent = expected.values.size() - zeros;
  const bool fits = sent <= std::max<size_t>(1, (expected.values.size() - 1) / 2);
  if (threshold_ > 0 && fits != is_sparse) return "sparse where it should not be, or not where";
  if (is_sparse) return values == expected.values ? "" : "another change than the model's";
  const bool same = values.size() == expected.values.size() &&
                    std::memcmp(values.data(), expected.values.data(), values.size() * 4) == 0;
  return same ? "" : "another change than the model's";
}

}  // namespace strata::sim
