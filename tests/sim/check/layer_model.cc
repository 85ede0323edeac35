#include "tests/sim/check/layer_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"
#include "tests/sim/check/scenario.h"

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

float ClipOf(const proto::JobRecord& record) {
  return ReferenceOptimizer::IsMean(record) ? 0 : record.job().optimizer().clip_norm();
}

bool IsSame(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

LayerModel::LayerModel(const proto::JobRecord& record, uint64_t steps)
    : record_(record),
      steps_(steps),
      local_steps_(StepsOf(record)),
      pull_(PullOf(record)),
      threshold_(record.job().consistency().lazy().significance().threshold()),
      clip_(ClipOf(record)),
      double_buffering_(record.job().consistency().lazy().double_buffering()) {
  if (ReferenceOptimizer::IsMean(record)) norms_.emplace(record);
  for (const proto::LogicalNode& node : record.view().nodes()) ranks_ += node.ranks();
}

void LayerModel::OnNodeStart(uint32_t node, uint32_t incarnation) {
  processes_[{node, incarnation}].clear();
  waiting_[{node, incarnation}].clear();
}

void LayerModel::OnFirstWeights(ChunkId chunk, const std::vector<float>& weights) {
  first_weights_[chunk.value()] = weights;
  if (norms_) norms_->OnFirstWeights(chunk, weights);
}

std::vector<LayerModel::Push> LayerModel::OnSum(uint32_t node, uint32_t incarnation, ChunkId id,
                                                uint64_t step, uint32_t samples,
                                                absl::Span<const float> sum) {
  const std::vector<float> gradients(sum.begin(), sum.end());
  if (clip_ > 0) return Clip({node, incarnation}, id, step, samples, gradients);
  const Push push = Submit({node, incarnation}, id, step, samples, gradients);
  return push.values.empty() ? std::vector<Push>() : std::vector<Push>{push};
}

// Once all chunks of the step are there.
std::vector<LayerModel::Push> LayerModel::Clip(const Process& process, ChunkId id, uint64_t step,
                                               uint32_t samples, const std::vector<float>& sum) {
  std::map<uint32_t, Push>& waiting = waiting_.at(process);
  waiting[id.value()] = {.chunk = id, .clock = step, .samples = samples, .values = sum};
  if (waiting.size() < first_weights_.size()) return {};
  double squares = 0;
  for (const auto& [c, part] : waiting) {
    for (const float value : part.values) {
      squares += std::pow(static_cast<double>(value) / part.samples, 2);
    }
  }
  const auto factor = static_cast<float>(std::min(1.0, clip_ / std::sqrt(squares)));
  std::vector<Push> pushes;
  for (auto& [c, part] : std::exchange(waiting, {})) {
    std::vector<float> scaled;
    for (const float value : part.values) scaled.push_back(value * factor);
    const Push push = Submit(process, ChunkId(c), step, part.samples, scaled);
    if (push.values.empty()) continue;
    clipped_[process][c] = push;
    pushes.push_back(push);
  }
  return pushes;
}

LayerModel::Push LayerModel::Submit(const Process& process, ChunkId id, uint64_t step,
                                    uint32_t samples, const std::vector<float>& gradients) {
  if (!has_local_steps()) {
    return {.chunk = id, .clock = step, .samples = samples, .values = gradients};
  }
  const std::vector<float>& first = first_weights_.at(id.value());
  const auto [at, is_new] = processes_.at(process).try_emplace(
      id.value(), Chunk{ReferenceOptimizer(record_, id), first, first});
  Chunk& chunk = at->second;
  const proto::LogicalNode& self = record_.view().nodes(static_cast<int>(process.first));
  chunk.optimizer.Update(gradients, samples, uint64_t{samples} * ranks_ / self.ranks(), 1.0,
                         &chunk.local, SaidRate(step));
  chunk.samples += samples;
  if (!EndsRound(step) && step + 1 < steps_) return {};
  chunk.push = {.chunk = id, .clock = RoundOf(step), .samples = chunk.samples};
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
  if (norms_) {
    const std::vector<float> expected = norms_->After(step + (double_buffering_ ? 0 : 1), id);
    if (expected.empty()) return "weights before all means of the clock were told";
    return IsSame(weights, expected) ? "" : "other weights than the model's";
  }
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
  return IsSame(weights, chunk.local) ? "" : "other weights than the model's";
}

std::string LayerModel::OnFinal(ChunkId chunk, absl::Span<const float> weights) {
  if (!norms_) return "";
  return IsSame(weights, norms_->After(steps_, chunk)) ? ""
                                                       : "other final weights than the model's";
}

// The rest is pushed with the round's weight.
void LayerModel::PushRest(Chunk* chunk) const {
  ++chunk->push.clock;
  for (size_t i = 0; i < chunk->local.size(); ++i) {
    const float change = chunk->start[i] - chunk->local[i];
    chunk->push.values[i] = change * static_cast<float>(chunk->push.samples);
  }
}

void LayerModel::OnAnswer(uint32_t node, ChunkId chunk, uint64_t round,
                          absl::Span<const float> weights) {
  if (norms_) return norms_->OnMean(chunk, round, weights);
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
    if (!IsSame(own, weights)) continue;
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
  if (header.codec != wire::Codec::kNone && !is_sparse) return "";
  if (!has_local_steps() && clip_ == 0) return "";
  const Process process = {header.node, header.incarnation};
  const Push& expected = has_local_steps() ? processes_.at(process).at(header.chunk).push
                                           : clipped_.at(process).at(header.chunk);
  if (header.clock != expected.clock || header.sample_count != expected.samples) {
    return absl::StrFormat("clock %d of %d samples, not %d of %d", header.clock,
                           header.sample_count, expected.clock, expected.samples);
  }
  const auto zeros = std::count(expected.values.begin(), expected.values.end(), 0.0f);
  const size_t sent = expected.values.size() - zeros;
  const bool fits = sent <= std::max<size_t>(1, (expected.values.size() - 1) / 2);
  if (threshold_ > 0 && fits != is_sparse) return "sparse where it should not be, or not where";
  const bool same = is_sparse ? values == expected.values : IsSame(values, expected.values);
  return same ? "" : "another change than the model's";
}

namespace {

double Norm(const std::vector<float>& x, size_t begin, size_t end) {
  double squares = 0;
  for (size_t i = begin; i < end; ++i) squares += static_cast<double>(x[i]) * x[i];
  return std::sqrt(squares);
}

}  // namespace

NormModel::NormModel(const proto::JobRecord& record)
    : job_(record.job()),
      says_rates_(record.says_rates()),
      chunk_elements_(record.placement().chunk_elements()),
      elements_(record.layout().elements()),
      velocity_(elements_, 0.0f),
      after_(1, std::vector<float>(elements_)) {
  for (const proto::Segment& segment : record.layout().segments()) {
    size_t size = 1;
    for (const uint64_t extent : segment.shape()) size *= extent;
    tensors_.push_back({.begin = segment.offset(),
                        .end = segment.offset() + size,
                        .rate = segment.lr_multiplier(),
                        .decay = segment.decay_multiplier()});
  }
}

size_t NormModel::ChunkElements(ChunkId chunk) const {
  return std::min<size_t>(chunk_elements_, elements_ - BeginOf(chunk));
}

void NormModel::OnFirstWeights(ChunkId chunk, const std::vector<float>& weights) {
  std::copy(weights.begin(), weights.end(), after_[0].begin() + BeginOf(chunk));
}

void NormModel::OnMean(ChunkId chunk, uint64_t clock, absl::Span<const float> mean) {
  means_[clock].try_emplace(chunk.value(), mean.begin(), mean.end());
}

std::vector<float> NormModel::After(uint64_t clocks, ChunkId chunk) {
  while (after_.size() <= clocks) {
    if (!Advance()) return {};
  }
  const auto begin = after_[clocks].begin() + BeginOf(chunk);
  return {begin, begin + ChunkElements(chunk)};
}

bool NormModel::Advance() {
  std::vector<float> mean;
  for (const auto& [chunk, part] : means_[after_.size() - 1]) {
    mean.insert(mean.end(), part.begin(), part.end());
  }
  if (mean.size() != elements_) return false;
  std::vector<float> weights = after_.back();
  Update(mean, after_.size() - 1, &weights);
  after_.push_back(weights);
  return true;
}

void NormModel::Update(const std::vector<float>& mean, uint64_t step, std::vector<float>* weights) {
  const proto::Optimizer& optimizer = job_.optimizer();
  const double limit = optimizer.clip_norm(), all = Norm(mean, 0, elements_);
  const double clip = limit > 0 ? std::min(1.0, limit / all) : 1;
  double decay = optimizer.lars().weight_decay(), momentum = optimizer.lars().momentum();
  if (optimizer.has_sgd()) {
    decay = optimizer.sgd().weight_decay();
    momentum = 0;
  } else if (optimizer.has_momentum_sgd()) {
    decay = optimizer.momentum_sgd().weight_decay();
    momentum = optimizer.momentum_sgd().momentum();
  }
  for (const Tensor& tensor : tensors_) {
    const double rate =
        double{says_rates_ ? SaidRate(step) : job_.schedule().base_lr()} * tensor.rate;
    const double of_weights = decay * tensor.decay;
    double before = 1, after = rate;  // the velocity includes it: only what is added, and all of it
    if (optimizer.has_lars()) {
      before = rate;
      after = 1;
      if (tensor.decay > 0) {
        const double w = Norm(*weights, tensor.begin, tensor.end);
        const double g = clip * Norm(mean, tensor.begin, tensor.end);
        before *= optimizer.lars().coefficient() * w / (g + of_weights * w + 1e-8);
      }
    }
    const auto of_mean = static_cast<float>(before * clip);
    const auto of_weight = static_cast<float>(before * of_weights);
    for (size_t i = tensor.begin; i < tensor.end; ++i) {
      float& w = (*weights)[i];
      velocity_[i] =
          static_cast<float>(momentum) * velocity_[i] + (of_mean * mean[i] + of_weight * w);
      w = w - static_cast<float>(after) * velocity_[i];
    }
  }
}

}  // namespace strata::sim
