#include "optimizer/weight_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/require.h"
#include "optimizer/update.h"

namespace strata::kernels {
namespace {

std::shared_ptr<float> Zeros(BufferPool& pool, uint32_t count) {
  std::shared_ptr<float> buffer = pool.AllocateFloats(count);
  std::fill_n(buffer.get(), count, 0.0f);
  return buffer;
}

}  // namespace

WeightState::WeightState(const Kernels& kernels, BufferPool& pool, const UpdateRule& rule,
                         uint32_t elements, std::vector<OptimizerRun> runs)
    : kernels_(kernels),
      pool_(pool),
      rule_(rule),
      elements_(elements),
      runs_(rule.has_multipliers ? std::move(runs)
                                 : std::vector<OptimizerRun>{{.count = elements}}) {}

void WeightState::Seed(const Bytes& weights, uint64_t checksum) {
  STRATA_REQUIRE(weights.size() == elements_ * sizeof(float));
  weights_ = AsBytes(CopyOf(CopyReason::kSeed, weights), elements_);
  seed_checksum_ = checksum;
  const int vectors = StateVectors(rule_.optimizer.kind);
  if (vectors > 0) state0_ = Zeros(pool_, elements_);
  if (vectors > 1) state1_ = Zeros(pool_, elements_);
}

std::shared_ptr<float> WeightState::CopyOf(CopyReason reason, const Bytes& vector) const {
  const std::shared_ptr<float> own = pool_.AllocateFloats(elements_);
  CopyBytes(reason, own.get(), vector.data(), vector.size());
  return own;
}

WeightImage WeightState::Image() const {
  STRATA_REQUIRE(seeded());
  WeightImage image = {
      .version = version_, .updates = updates_, .samples = samples_, .weights = weights_};
  for (const std::shared_ptr<float>& vector : {state0_, state1_}) {
    if (vector == nullptr) continue;
    const std::shared_ptr<float> copy = CopyOf(CopyReason::kCut, AsBytes(vector, elements_));
    image.state.push_back(AsBytes(copy, elements_));
  }
  return image;
}

absl::Status WeightState::Restore(const WeightImage& image) {
  STRATA_REQUIRE(!seeded());
  const size_t bytes = elements_ * sizeof(float);
  const size_t vectors = StateVectors(rule_.optimizer.kind);
  if (image.state.size() != vectors) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "optimizer state of %d vectors, the job's optimizer has %d", image.state.size(), vectors));
  }
  for (const Bytes* vector : {&image.weights, vectors > 0 ? &image.state[0] : nullptr,
                              vectors > 1 ? &image.state[1] : nullptr}) {
    if (vector == nullptr || vector->size() == bytes) continue;
    return absl::InvalidArgumentError(absl::StrFormat("vectors of %d elements, the chunk has %d",
                                                      vector->float_count(), elements_));
  }
  weights_ = AsBytes(CopyOf(CopyReason::kSeed, image.weights), elements_);
  if (vectors > 0) state0_ = CopyOf(CopyReason::kSeed, image.state[0]);
  if (vectors > 1) state1_ = CopyOf(CopyReason::kSeed, image.state[1]);
  version_ = image.version;
  updates_ = image.updates;
  samples_ = image.samples;
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
  if (gradient_sum.empty()) zeros = Zeros(pool_, elements_);
  const float* gradient = gradient_sum.empty() ? zeros.get() : gradient_sum.floats();
  const std::shared_ptr<float> next = pool_.AllocateFloats(elements_);
  ApplyUpdate(kernels_, rule_.optimizer, update, runs_, gradient, weights_.floats(), next.get(),
              state0_.get(), state1_.get());
  weights_ = AsBytes(next, elements_);
  ++version_;
}

void WeightState::Skip() {
  if (rule_.optimizer.kind == OptimizerKind::kMean)
    weights_ = AsBytes(Zeros(pool_, elements_), elements_);
  ++version_;
}

}  // namespace strata::kernels
