#include "tests/sim/model/norm_model.h"

#include <algorithm>
#include <cmath>

#include "tests/sim/scenario/scenario.h"

namespace strata::sim {
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
    double before = 1, after = rate;  // the velocity takes it in: of what is added, and all of it
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
