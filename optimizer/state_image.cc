#include "optimizer/state_image.h"

#include "absl/strings/str_format.h"
#include "common/copy_floats.h"

namespace strata::kernels {

std::vector<Bytes> CopyState(BufferPool& pool, const std::shared_ptr<float>& state0,
                             const std::shared_ptr<float>& state1, uint32_t count) {
  std::vector<Bytes> copies;
  for (const float* vector : {state0.get(), state1.get()}) {
    if (vector == nullptr) continue;
    copies.push_back(AsBytes(CopyFloats(CopyReason::kCut, pool, vector, count), count));
  }
  return copies;
}

absl::Status CheckImage(const WeightImage& image, OptimizerKind kind, uint32_t elements) {
  const size_t vectors = StateVectors(kind);
  if (image.state.size() != vectors) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "optimizer state of %d vectors, the job's optimizer has %d", image.state.size(), vectors));
  }
  std::vector<Bytes> all = image.state;
  all.push_back(image.weights);
  for (const Bytes& vector : all) {
    if (vector.size() == elements * sizeof(float)) continue;
    return absl::InvalidArgumentError(absl::StrFormat("vectors of %d elements, the chunk has %d",
                                                      vector.float_count(), elements));
  }
  return absl::OkStatus();
}

}  // namespace strata::kernels
