#include "numerics/present_update.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "common/copies.h"

namespace strata::numerics {

namespace {

bool HasAbsent(absl::Span<const float> gradient) {
  // Without branches, so that the compiler takes several elements at a time.
  uint32_t found = 0;
  for (const float x : gradient) found |= IsAbsent(x);
  return found != 0;
}

}  // namespace

void PresentUpdate::Begin(BufferPool& pool, bool marks_absent, OptimizerKind kind,
                          absl::Span<const float> gradient) {
  const bool has_absent = marks_absent && HasAbsent(gradient);
  if (has_absent && missed_ == nullptr && CountsUpdates(kind)) {
    missed_ = pool.AllocateFloats(gradient.size());
    std::fill_n(missed_.get(), gradient.size(), 0.0f);
  }
  has_all_ = !has_absent && (!marks_absent || missed_ == nullptr);
}

void PresentUpdate::Apply(const kernels::Kernels& kernels, const OptimizerParams& params,
                          kernels::OptimizerStep step, const Vectors& whole, size_t begin,
                          size_t count) {
  const auto optimize = [&](size_t first, size_t last) {
    kernels.optimize(params, step, whole.gradient + first, whole.w_in + first, whole.w_out + first,
                     whole.state0 == nullptr ? nullptr : whole.state0 + first,
                     whole.state1 == nullptr ? nullptr : whole.state1 + first, last - first);
  };
  const size_t end = begin + count;
  if (has_all_ || params.kind == OptimizerKind::kMean) return optimize(begin, end);
  const uint64_t update = step.update;
  float* const missed = CountsUpdates(params.kind) ? missed_.get() : nullptr;
  for (size_t at = begin; at < end;) {
    // A stretch of elements that all take part, or do not, and have missed as many.
    const bool is_absent = IsAbsent(whole.gradient[at]);
    const float missed_here = missed == nullptr ? 0 : missed[at];
    size_t stop = at + 1;
    while (stop < end && IsAbsent(whole.gradient[stop]) == is_absent &&
           (missed == nullptr || missed[stop] == missed_here)) {
      ++stop;
    }
    if (is_absent) {
      std::copy(whole.w_in + at, whole.w_in + stop, whole.w_out + at);
      if (missed != nullptr) std::fill(missed + at, missed + stop, missed_here + 1);
    } else {
      step.update = update - static_cast<uint64_t>(missed_here);
      optimize(at, stop);
    }
    at = stop;
  }
}

void CopyState(BufferPool& pool, const std::shared_ptr<float>& state0,
               const std::shared_ptr<float>& state1, const std::shared_ptr<float>& missed,
               uint32_t count, WeightImage* image) {
  const auto copied = [&](const float* vector) {
    return AsBytes(CopyFloats(CopyReason::kCut, pool, vector, count), count);
  };
  for (const float* vector : {state0.get(), state1.get()}) {
    if (vector != nullptr) image->state.push_back(copied(vector));
  }
  if (missed != nullptr) image->missed = copied(missed.get());
}

absl::Status CheckImage(const WeightImage& image, OptimizerKind kind, uint32_t elements) {
  const size_t vectors = StateVectors(kind);
  if (image.state.size() != vectors) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "optimizer state of %d vectors, the job's optimizer has %d", image.state.size(), vectors));
  }
  std::vector<Bytes> all = image.state;
  all.push_back(image.weights);
  if (!image.missed.empty()) all.push_back(image.missed);
  for (const Bytes& vector : all) {
    if (vector.size() == elements * sizeof(float)) continue;
    return absl::InvalidArgumentError(absl::StrFormat("vectors of %d elements, the chunk has %d",
                                                      vector.float_count(), elements));
  }
  for (size_t i = 0; i < image.missed.float_count(); ++i) {
    const float missed = image.missed.floats()[i];
    const bool is_count =
        missed >= 0 && missed <= static_cast<float>(image.updates) && missed == std::floor(missed);
    if (is_count) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("element %d has missed %g of %d updates", i, missed, image.updates));
  }
  return absl::OkStatus();
}

}  // namespace strata::numerics
