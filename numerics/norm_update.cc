#include "numerics/norm_update.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "common/require.h"
#include "numerics/present_update.h"

namespace strata::numerics {
namespace {

constexpr double kLarsEpsilon = 1e-8;

std::shared_ptr<float> Zeros(BufferPool& pool, uint32_t count) {
  std::shared_ptr<float> buffer = pool.AllocateFloats(count);
  std::fill_n(buffer.get(), count, 0.0f);
  return buffer;
}

}  // namespace

double SumOfSquares(const float* x, size_t n) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> lanes = {};
  for (size_t i = 0; i < n; ++i) {
    const double value = x[i];
    lanes[i % kLanes] += value * value;
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

NormUpdate::NormUpdate(const kernels::Kernels& kernels, BufferPool& pool, const proto::Job& job,
                       uint64_t samples_per_epoch, const proto::Layout& layout, const ChunkMap& map,
                       bool says_rates, bool marks_absent)
    : kernels_(kernels),
      pool_(pool),
      rule_(MakeLocalUpdateRule(job, samples_per_epoch, says_rates)),
      clip_norm_(job.optimizer().clip_norm()),
      lars_coefficient_(job.optimizer().has_lars() ? job.optimizer().lars().coefficient() : 0),
      marks_absent_(marks_absent),
      map_(map),
      chunks_(map.chunks()) {
  for (const proto::Segment& segment : layout.segments()) averaged_.push_back(segment.averaged());
  for (uint32_t t = 0; t < averaged_.size(); ++t) {
    const int index = static_cast<int>(t);
    const uint64_t begin = layout.segments(index).offset();
    const uint64_t end =
        t + 1 == averaged_.size() ? layout.elements() : layout.segments(index + 1).offset();
    for (uint64_t at = begin; at < end;) {
      const ChunkId chunk = map.ChunkAt(at);
      const uint64_t first = map.OffsetOf(chunk);
      const uint64_t stop = std::min(end, first + map.ElementsOf(chunk));
      // One tensor's part of a chunk is updated alike.
      OptimizerRun run = OptimizerRuns(layout, at, stop - at).front();
      run.offset = at - first;
      chunks_[chunk.value()].runs.push_back({t, run});
      at = stop;
    }
  }
}

void NormUpdate::Seed(ChunkId id, const Bytes& weights) {
  Chunk& chunk = chunks_[id.value()];
  const uint32_t count = map_.ElementsOf(id);
  chunk.weights = AsBytes(Owned(weights), count);
  chunk.mean = Owned(weights);
  const int vectors = StateVectors(rule_.optimizer.kind);
  if (vectors > 0) chunk.state0 = Zeros(pool_, count);
  if (vectors > 1) chunk.state1 = Zeros(pool_, count);
}

WeightImage NormUpdate::Image(ChunkId id) const {
  const Chunk& chunk = chunks_[id.value()];
  STRATA_REQUIRE(chunk.mean != nullptr && !chunk.complete);
  WeightImage image = {
      .version = updates_, .updates = updates_, .samples = samples_, .weights = chunk.weights};
  CopyState(pool_, chunk.state0, chunk.state1, chunk.present.missed(), map_.ElementsOf(id), &image);
  return image;
}

absl::Status NormUpdate::Restore(ChunkId id, const WeightImage& image) {
  Chunk& chunk = chunks_[id.value()];
  STRATA_REQUIRE(chunk.mean == nullptr);
  const uint32_t count = map_.ElementsOf(id);
  absl::Status fits = CheckImage(image, rule_.optimizer.kind, count);
  if (!fits.ok()) return fits;
  if (is_restored_ && (image.updates != updates_ || image.samples != samples_)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d updates of %d samples, other chunks have had %d of %d", image.updates,
                        image.samples, updates_, samples_));
  }
  chunk.weights = AsBytes(Owned(image.weights), count);
  chunk.mean = Zeros(pool_, count);
  if (image.state.size() > 0) chunk.state0 = Owned(image.state[0]);
  if (image.state.size() > 1) chunk.state1 = Owned(image.state[1]);
  if (!image.missed.empty()) chunk.present.Restore(Owned(image.missed));
  updates_ = image.updates;
  samples_ = image.samples;
  is_restored_ = true;
  return absl::OkStatus();
}

std::shared_ptr<float> NormUpdate::Owned(const Bytes& vector) const {
  return CopyFloats(CopyReason::kSeed, pool_, vector.floats(), vector.float_count());
}

bool NormUpdate::Complete(ChunkId id) {
  chunks_[id.value()].complete = true;
  return ++complete_ == chunks_.size();
}

std::vector<NormUpdate::Norms> NormUpdate::MeasureNorms() const {
  std::vector<Norms> norms(averaged_.size());
  for (const Chunk& chunk : chunks_) {
    for (const auto& [tensor, run] : chunk.runs) {
      norms[tensor].gradient += SumOfSquares(chunk.mean.get() + run.offset, run.count);
      norms[tensor].weights += SumOfSquares(chunk.weights.floats() + run.offset, run.count);
    }
  }
  for (Norms& norm : norms) {
    norm.gradient = std::sqrt(norm.gradient);
    norm.weights = std::sqrt(norm.weights);
  }
  return norms;
}

double NormUpdate::ClipFactor(const std::vector<Norms>& norms) const {
  if (clip_norm_ == 0) return 1;
  double squares = 0;
  for (size_t t = 0; t < norms.size(); ++t) {
    if (!averaged_[t]) squares += norms[t].gradient * norms[t].gradient;
  }
  const double norm = std::sqrt(squares);
  return norm > clip_norm_ ? clip_norm_ / norm : 1;
}

kernels::OptimizerStep NormUpdate::MakeStep(const OptimizerRun& run, const Norms& norms,
                                            const Update& update, double clip) const {
  const double rate = update.lr * run.lr_multiplier;
  const double decay = double{rule_.optimizer.weight_decay} * run.decay_multiplier;
  kernels::OptimizerStep step = {.lr = static_cast<float>(rate),
                                 .decay = static_cast<float>(decay),
                                 .gradient_scale = static_cast<float>(clip),
                                 .update = update.number,
                                 .sgd_share = update.sgd_share,
                                 .rms_share = update.rms_share};
  if (run.averaged) step.gradient_scale = 1;
  if (lars_coefficient_ == 0 || run.averaged) return step;
  // v = momentum v + rate trust (g + decay w), w -= v: the momentum rule at rate 1.
  double local = rate;
  if (run.decay_multiplier > 0) {
    local *= lars_coefficient_ * norms.weights /
             (clip * norms.gradient + decay * norms.weights + kLarsEpsilon);
  }
  step.lr = 1;
  step.gradient_scale = static_cast<float>(local * clip);
  step.decay = static_cast<float>(local * decay);
  return step;
}

void NormUpdate::Apply(uint64_t samples, const StepRate& rate) {
  STRATA_REQUIRE(complete_ == chunks_.size());
  samples_ += samples;
  const Update update = UpdateAt(rule_, samples_, ++updates_, rate);
  const std::vector<Norms> norms = MeasureNorms();
  const double clip = ClipFactor(norms);
  OptimizerParams averaged = rule_.optimizer;
  averaged.kind = OptimizerKind::kMean;
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks_[c];
    const uint32_t count = map_.ElementsOf(ChunkId(c));
    const std::shared_ptr<float> next = pool_.AllocateFloats(count);
    const PresentUpdate::Vectors whole = {chunk.mean.get(), chunk.weights.floats(), next.get(),
                                          chunk.state0.get(), chunk.state1.get()};
    chunk.present.Begin(pool_, marks_absent_, rule_.optimizer.kind, {whole.gradient, count});
    for (const auto& [tensor, run] : chunk.runs) {
      chunk.present.Apply(kernels_, run.averaged ? averaged : rule_.optimizer,
                          MakeStep(run, norms[tensor], update, clip), whole, run.offset, run.count);
    }
    chunk.weights = AsBytes(next, count);
    chunk.complete = false;
  }
  complete_ = 0;
}

}  // namespace strata::numerics
