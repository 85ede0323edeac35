#include "tests/sim/check/reference_optimizer.h"

#include <algorithm>
#include <cmath>

namespace strata::sim {
namespace {

float DecayOf(const proto::Optimizer& optimizer) {
  if (optimizer.has_sgd()) return optimizer.sgd().weight_decay();
  if (optimizer.has_nesterov()) return optimizer.nesterov().weight_decay();
  if (optimizer.has_adam()) return optimizer.adam().weight_decay();
  if (optimizer.has_adamw()) return optimizer.adamw().weight_decay();
  if (optimizer.has_rmsprop_warmup()) return optimizer.rmsprop_warmup().weight_decay();
  if (optimizer.has_adagrad()) return optimizer.adagrad().weight_decay();
  if (optimizer.has_ftrl()) return optimizer.ftrl().weight_decay();
  return optimizer.momentum_sgd().weight_decay();
}

float MomentumOf(const proto::Optimizer& optimizer) {
  if (optimizer.has_nesterov()) return optimizer.nesterov().momentum();
  if (optimizer.has_rmsprop_warmup()) return optimizer.rmsprop_warmup().momentum();
  return optimizer.momentum_sgd().momentum();
}

// 1 / (1 - beta^t), Adam's correction of a moment that began at zero.
float Correction(float beta, uint64_t t) {
  const double power = std::pow(static_cast<double>(beta), static_cast<double>(t));
  return static_cast<float>(1.0 / (1.0 - power));
}

}  // namespace

ReferenceOptimizer::ReferenceOptimizer(const proto::JobRecord& record, ChunkId chunk)
    : optimizer_(record.job().optimizer()),
      schedule_(record.job().schedule()),
      samples_per_epoch_(record.samples_per_epoch()),
      epochs_(record.job().epochs()),
      says_rates_(record.says_rates()),
      momentum_(MomentumOf(optimizer_)),
      beta1_(optimizer_.has_adam() ? optimizer_.adam().beta1() : optimizer_.adamw().beta1()),
      beta2_(optimizer_.has_adam() ? optimizer_.adam().beta2() : optimizer_.adamw().beta2()),
      epsilon_(optimizer_.has_adam() ? optimizer_.adam().epsilon() : optimizer_.adamw().epsilon()) {
  const uint64_t per_chunk = record.placement().chunk_elements();
  const uint64_t begin = chunk.value() * per_chunk;
  const uint64_t end = std::min<uint64_t>(begin + per_chunk, record.layout().elements());
  for (const proto::Segment& segment : record.layout().segments()) {
    uint64_t size = 1;
    for (const uint64_t extent : segment.shape()) size *= extent;
    const uint64_t stop = std::min(end, segment.offset() + size);
    for (uint64_t at = std::max(begin, segment.offset()); at < stop; ++at) {
      rate_multiplier_.push_back(segment.lr_multiplier());
      decay_.push_back(DecayOf(optimizer_) * segment.decay_multiplier());
      averaged_.push_back(segment.averaged());
    }
  }
  first_.assign(elements(), 0.0f);
  second_.assign(elements(), 0.0f);
}

ReferenceOptimizer ReferenceOptimizer::Outer(proto::JobRecord record, ChunkId chunk) {
  proto::Job& job = *record.mutable_job();
  const proto::Outer outer = job.consistency().lazy().outer();
  job.clear_optimizer();
  if (outer.momentum() > 0) {
    job.mutable_optimizer()->mutable_nesterov()->set_momentum(outer.momentum());
  } else {
    job.mutable_optimizer()->mutable_sgd();
  }
  job.clear_schedule();
  record.set_says_rates(false);
  job.mutable_schedule()->set_base_lr(outer.lr());
  for (proto::Segment& segment : *record.mutable_layout()->mutable_segments()) {
    segment.set_lr_multiplier(1);
  }
  return ReferenceOptimizer(record, chunk);
}

ReferenceOptimizer ReferenceOptimizer::Elastic(proto::JobRecord record, ChunkId chunk) {
  proto::Consistency& consistency = *record.mutable_job()->mutable_consistency();
  const float rate = consistency.async().elastic().moving_rate();
  consistency.mutable_lazy()->mutable_outer()->set_lr(rate);
  return Outer(std::move(record), chunk);
}

ReferenceOptimizer ReferenceOptimizer::Mean(const proto::JobRecord& record, ChunkId chunk) {
  ReferenceOptimizer mean(record, chunk);
  mean.all_averaged_ = true;
  return mean;
}

bool ReferenceOptimizer::IsMean(const proto::JobRecord& record) {
  const proto::Optimizer& optimizer = record.job().optimizer();
  const proto::Consistency& consistency = record.job().consistency();
  const proto::Lazy& lazy = consistency.lazy();
  const bool in_step = !consistency.has_async() && lazy.staleness() == 0 && !lazy.has_quorum() &&
                       lazy.local_steps() == 0 && lazy.apply() == proto::Lazy::PER_CLOCK;
  return in_step && (optimizer.has_lars() || optimizer.clip_norm() > 0);
}

double ReferenceOptimizer::RateAt(uint64_t samples) const {
  const double base = schedule_.base_lr();
  if (samples_per_epoch_ == 0) return base;  // no epochs, so neither warm-up nor shape
  const double epoch = static_cast<double>(samples) / static_cast<double>(samples_per_epoch_);
  const double warmup = schedule_.warmup_epochs();
  if (epoch < warmup) return base * (epoch / warmup);
  if (schedule_.has_step()) {
    double rate = base;
    for (const float boundary : schedule_.step().boundaries_epochs()) {
      if (epoch >= boundary) rate *= schedule_.step().gamma();
    }
    return rate;
  }
  const double span = epochs_ - warmup;
  if (!schedule_.has_cosine() || span <= 0) return base;
  const double done = std::min((epoch - warmup) / span, 1.0);
  const double last = schedule_.cosine().final_lr();
  return last + (base - last) * ((1.0 + std::cos(M_PI * done)) / 2.0);
}

// a of RMSprop warm-up.
double ReferenceOptimizer::ShareOfSgd() const {
  if (samples_per_epoch_ == 0) return 1;
  const double epoch = static_cast<double>(samples_) / static_cast<double>(samples_per_epoch_);
  const double center = optimizer_.rmsprop_warmup().center_epochs();
  const double width = optimizer_.rmsprop_warmup().width_epochs();
  if (epoch >= center + width / 2) return 1;
  const double past = (epoch - center) / width;
  return past < 0 ? std::exp(2 * past) / 2 : 0.5 + past;
}

// w -= rate * direction(element, mean gradient, decay * w)
template <typename Direction>
void ReferenceOptimizer::Descend(const std::vector<float>& gradient_sum, float reciprocal,
                                 double rate, std::vector<float>* weights, Direction direction) {
  const bool has_gradient = !gradient_sum.empty();
  for (size_t i = 0; i < weights->size(); ++i) {
    const float mean = reciprocal * (has_gradient ? gradient_sum[i] : 0.0f);
    float& weight = (*weights)[i];
    if (all_averaged_ || averaged_[i]) {
      weight = mean;
      continue;
    }
    const float step = static_cast<float>(rate * rate_multiplier_[i]);
    weight = weight - step * direction(i, mean, decay_[i] * weight);
  }
}

float ReferenceOptimizer::RmspropDelta(size_t i, float d, float a, float b) {
  const proto::RmspropWarmup& warmup = optimizer_.rmsprop_warmup();
  first_[i] = warmup.decay() * first_[i] + (1.0f - warmup.decay()) * (d * d);
  second_[i] = momentum_ * second_[i] - (a + b / (std::sqrt(first_[i]) + warmup.epsilon())) * d;
  return second_[i];
}

float ReferenceOptimizer::AdagradRatio(size_t i, float d) {
  const proto::Adagrad& adagrad = optimizer_.adagrad();
  first_[i] += d * d;
  return d / (std::sqrt(first_[i] + adagrad.initial_accumulator()) + adagrad.epsilon());
}

// The new weight does not follow from a difference: it is a function of z and n.
void ReferenceOptimizer::DescendByFtrl(const std::vector<float>& gradient_sum, float reciprocal,
                                       double rate, std::vector<float>* weights) {
  const proto::Ftrl& ftrl = optimizer_.ftrl();
  for (size_t i = 0; i < weights->size(); ++i) {
    const float mean = reciprocal * (gradient_sum.empty() ? 0.0f : gradient_sum[i]);
    float& weight = (*weights)[i];
    if (all_averaged_ || averaged_[i]) {
      weight = mean;
      continue;
    }
    const float step = static_cast<float>(rate * rate_multiplier_[i]);
    if (step < 1e-30f) continue;
    const float h = mean + decay_[i] * weight;
    const float root_before = std::sqrt(second_[i]);
    if (weight != 0) {
      const float sign = weight < 0 ? -1.0f : 1.0f;
      first_[i] = -(weight * ((ftrl.beta() + root_before) / step + ftrl.l2())) - sign * ftrl.l1();
    }
    second_[i] += h * h;
    const float root = std::sqrt(second_[i]);
    first_[i] += h - (root - root_before) / step * weight;
    const float sign = std::signbit(first_[i]) ? -1.0f : 1.0f;
    weight = std::fabs(first_[i]) <= ftrl.l1()
                 ? 0.0f
                 : -((first_[i] - sign * ftrl.l1()) / ((ftrl.beta() + root) / step + ftrl.l2()));
  }
}

void ReferenceOptimizer::Update(const std::vector<float>& gradient_sum, uint64_t divisor,
                                uint64_t samples, double factor, std::vector<float>* weights,
                                double said) {
  samples_ += samples;
  ++updates_;
  const double whole_rate = says_rates_ ? said : RateAt(samples_);
  const double rate = whole_rate * factor;
  const float reciprocal = static_cast<float>(1.0 / static_cast<double>(divisor));
  // m / (sqrt(v) + epsilon), both corrected.
  const float correction1 = Correction(beta1_, updates_),
              correction2 = Correction(beta2_, updates_);
  const auto ratio = [&](size_t i, float g) {
    first_[i] = beta1_ * first_[i] + (1.0f - beta1_) * g;
    second_[i] = beta2_ * second_[i] + (1.0f - beta2_) * (g * g);
    const float m = first_[i] * correction1, v = second_[i] * correction2;
    return m / (std::sqrt(v) + epsilon_);
  };
  const auto velocity = [&](size_t i, float d) {
    first_[i] = momentum_ * first_[i] + d;
    return first_[i];
  };
  const auto descend = [&](auto direction) {
    Descend(gradient_sum, reciprocal, rate, weights, direction);
  };
  switch (optimizer_.kind_case()) {
    case proto::Optimizer::kSgd:
      return descend([](size_t, float g, float decay) { return g + decay; });
    case proto::Optimizer::KIND_NOT_SET:
    case proto::Optimizer::kMomentumSgd:
      return descend([&](size_t i, float g, float decay) { return velocity(i, g + decay); });
    case proto::Optimizer::kNesterov:
      return descend([&](size_t i, float g, float decay) {
        const float d = g + decay;
        return d + momentum_ * velocity(i, d);
      });
    case proto::Optimizer::kAdam:
      return descend([&](size_t i, float g, float decay) { return ratio(i, g + decay); });
    case proto::Optimizer::kAdamw:
      return descend([&](size_t i, float g, float decay) { return ratio(i, g) + decay; });
    case proto::Optimizer::kRmspropWarmup: {
      const double of_sgd = ShareOfSgd();
      const auto a = static_cast<float>(of_sgd);
      const auto b =
          static_cast<float>((1 - of_sgd) * optimizer_.rmsprop_warmup().rms_lr() / whole_rate);
      return descend(
          [&, a, b](size_t i, float g, float decay) { return -RmspropDelta(i, g + decay, a, b); });
    }
    case proto::Optimizer::kAdagrad:
      return descend([&](size_t i, float g, float decay) { return AdagradRatio(i, g + decay); });
    case proto::Optimizer::kFtrl:
      return DescendByFtrl(gradient_sum, reciprocal, rate, weights);
    case proto::Optimizer::kMean:
    case proto::Optimizer::kFromProgram:  // not of a job that trains
    case proto::Optimizer::kLars:         // on nodes
      return descend([](size_t, float g, float) { return g; });
  }
}

}  // namespace strata::sim
