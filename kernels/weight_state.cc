#include "kernels/weight_state.h"

#include <algorithm>
#include <utility>

#include "common/copies.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "kernels/update.h"

namespace strata::kernels {
namespace {

std::shared_ptr<float> Zeros(BufferPool& pool, uint32_t count) {
  std::shared_ptr<float> buffer = pool.AllocateFloats(count);
  std::fill_n(buffer.get(), count, 0.0f);
  return buffer;
}

}  // namespace

UpdateRule UpdateRuleOf(const proto::Job& job, uint64_t samples_per_epoch) {
  return {.optimizer = SharedOptimizerOf(job),
          .schedule = SharedScheduleOf(job),
          .samples_per_epoch = samples_per_epoch,
          .epochs = job.epochs(),
          .has_multipliers = !HasLocalSteps(job)};
}

UpdateRule LocalUpdateRuleOf(const proto::Job& job, uint64_t samples_per_epoch) {
  return {.optimizer = OptimizerParamsOf(job.optimizer()),
          .schedule = job.schedule(),
          .samples_per_epoch = samples_per_epoch,
          .epochs = job.epochs()};
}

WeightState::WeightState(const Kernels& kernels, BufferPool& pool, const UpdateRule& rule,
                         uint32_t elements, std::vector<OptimizerRun> runs)
    : kernels_(kernels),
      pool_(pool),
      rule_(rule),
      elements_(elements),
      runs_(rule.has_multipliers ? std::move(runs)
                                 : std::vector<OptimizerRun>{{.count = elements}}) {}

void WeightState::Seed(const Bytes& weights, uint64_t checksum) {
  const std::shared_ptr<float> own = pool_.AllocateFloats(elements_);
  CopyBytes(CopyReason::kSeed, own.get(), weights.data(), weights.size());
  weights_ = AsBytes(own, elements_);
  seed_checksum_ = checksum;
  const int vectors = StateVectors(rule_.optimizer.kind);
  if (vectors > 0) state0_ = Zeros(pool_, elements_);
  if (vectors > 1) state1_ = Zeros(pool_, elements_);
}

void WeightState::Apply(const Bytes& gradient_sum, float scale, uint64_t samples, double damping) {
  samples_ += samples;
  Update update;
  update.lr =
      LearningRateAt(rule_.schedule, samples_, rule_.samples_per_epoch, rule_.epochs) * damping;
  update.gradient_scale = scale;
  update.number = ++updates_;
  update.far = rule_.far;
  std::shared_ptr<float> zeros;
  if (gradient_sum.empty()) zeros = Zeros(pool_, elements_);
  const float* gradient = gradient_sum.empty() ? zeros.get() : gradient_sum.floats();
  const std::shared_ptr<float> next = pool_.AllocateFloats(elements_);
  ApplyUpdate(kernels_, rule_.optimizer, update, runs_, gradient, weights_.floats(), next.get(),
              state0_.get(), state1_.get());
  weights_ = AsBytes(next, elements_);
  ++version_;
}

}  // namespace strata::kernels
