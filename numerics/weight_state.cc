#include "numerics/weight_state.h"

#include <algorithm>
#include <utility>

#include "common/copies.h"
#include "common/require.h"
#include "numerics/present_update.h"
#include "numerics/update.h"

namespace strata::numerics {
namespace {

std::shared_ptr<float> Zeros(BufferPool& pool, uint32_t count) {
  std::shared_ptr<float> buffer = pool.AllocateFloats(count);
  std::fill_n(buffer.get(), count, 0.0f);
  return buffer;
}

}  // namespace

WeightState::WeightState(const kernels::Kernels& kernels, BufferPool& pool, const UpdateRule& rule,
                         uint32_t elements, std::vector<OptimizerRun> runs)
    : kernels_(kernels),
      pool_(pool),
      rule_(rule),
      elements_(elements),
      runs_(rule.has_multipliers ? std::move(runs)
                                 : std::vector<OptimizerRun>{{.count = elements}}) {}

void WeightState::Seed(const Bytes& weights, uint64_t checksum) {
  STRATA_REQUIRE(weights.size() == elements_ * sizeof(float));
  weights_ = AsBytes(Owned(weights), elements_);
  seed_checksum_ = checksum;
  const int vectors = StateVectors(rule_.optimizer.kind);
  if (vectors > 0) state0_ = Zeros(pool_, elements_);
  if (vectors > 1) state1_ = Zeros(pool_, elements_);
}

std::shared_ptr<float> WeightState::Owned(const Bytes& vector) const {
  return CopyFloats(CopyReason::kSeed, pool_, vector.floats(), elements_);
}

WeightImage WeightState::Image() const {
  STRATA_REQUIRE(seeded());
  WeightImage image = {
      .version = version_, .updates = updates_, .samples = samples_, .weights = weights_};
  CopyState(pool_, state0_, state1_, present_.missed(), elements_, &image);
  return image;
}

absl::Status WeightState::Restore(const WeightImage& image, uint64_t seed_checksum) {
  STRATA_REQUIRE(!seeded());
  absl::Status fits = CheckImage(image, rule_.optimizer.kind, elements_);
  if (!fits.ok()) return fits;
  weights_ = AsBytes(Owned(image.weights), elements_);
  if (image.state.size() > 0) state0_ = Owned(image.state[0]);
  if (image.state.size() > 1) state1_ = Owned(image.state[1]);
  if (!image.missed.empty()) present_.Restore(Owned(image.missed));
  version_ = image.version;
  updates_ = image.updates;
  samples_ = image.samples;
  seed_checksum_ = seed_checksum;
  return absl::OkStatus();
}

void WeightState::Apply(const Bytes& gradient_sum, float scale, uint64_t samples,
                        const StepRate& rate) {
  STRATA_REQUIRE(seeded());
  STRATA_REQUIRE(gradient_sum.empty() || gradient_sum.size() == elements_ * sizeof(float));
  samples_ += samples;
  Update update = UpdateAt(rule_, samples_, ++updates_, rate);
  update.gradient_scale = scale;
  std::shared_ptr<float> zeros;
  if (gradient_sum.empty()) {
    zeros = pool_.AllocateFloats(elements_);
    std::fill_n(zeros.get(), elements_, rule_.marks_absent ? -0.0f : 0.0f);
  }
  const float* gradient = gradient_sum.empty() ? zeros.get() : gradient_sum.floats();
  const std::shared_ptr<float> next = pool_.AllocateFloats(elements_);
  present_.Begin(pool_, rule_.marks_absent, rule_.optimizer.kind, {gradient, elements_});
  const PresentUpdate::Vectors whole = {gradient, weights_.floats(), next.get(), state0_.get(),
                                        state1_.get()};
  for (const OptimizerRun& run : runs_) {
    present_.Apply(kernels_, RunParams(rule_.optimizer, run),
                   MakeStep(rule_.optimizer, update, run), whole, run.offset, run.count);
  }
  if (keeps_previous_) previous_ = std::move(weights_);
  weights_ = AsBytes(next, elements_);
  ++version_;
}

void WeightState::Skip() {
  if (keeps_previous_) previous_ = weights_;
  if (rule_.optimizer.kind == OptimizerKind::kMean)
    weights_ = AsBytes(Zeros(pool_, elements_), elements_);
  ++version_;
}

}  // namespace strata::numerics
