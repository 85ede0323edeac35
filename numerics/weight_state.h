#ifndef STRATA_NUMERICS_WEIGHT_STATE_H_
#define STRATA_NUMERICS_WEIGHT_STATE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "common/job/arena.h"
#include "common/require.h"
#include "kernels/kernels.h"
#include "numerics/present_update.h"
#include "numerics/update.h"

namespace strata::numerics {

// The weights of one chunk, or of a part of it, with their optimizer state. Weights are immutable
// buffers: an update writes a new one, so outgoing answers keep reading the old one.
//
// Threads: one; returned buffers may be read and released on any.
class WeightState {
 public:
  // The arguments outlive this.
  WeightState(const kernels::Kernels& kernels, BufferPool& pool, const UpdateRule& rule,
              uint32_t elements, std::vector<OptimizerRun> runs);

  bool seeded() const { return !weights_.empty(); }
  // Sets the first weights. They are copied: a message's buffer, kept until the first update
  // replaces it, would then stay with the allocator in addition to the pool's memory. REQUIRES:
  // `elements` fp32. Once.
  void Seed(const Bytes& weights, uint64_t checksum);
  uint64_t seed_checksum() const { return seed_checksum_; }

  // One optimizer update with the mean gradient gradient_sum * scale over `samples` more samples;
  // an empty sum is a zero gradient, or, if the rule marks absent elements, no gradient. Counts one
  // version. REQUIRES: seeded.
  void Apply(const Bytes& gradient_sum, float scale, uint64_t samples, const StepRate& rate);
  // Counts a version in which no node had a sample: weights and state stay. If weights are mean
  // gradients, they become zero.
  void Skip();
  // From now on the previous version's weights are kept, too.
  void KeepPrevious() { keeps_previous_ = true; }
  // The weights of version() - 1. Empty: they are not kept, or there are none.
  const Bytes& previous() const { return previous_; }
  void RestorePrevious(Bytes previous) { previous_ = std::move(previous); }
  // Replaces the weights; the optimizer's state and counts stay. REQUIRES: seeded, `elements` fp32.
  void Replace(Bytes weights) {
    STRATA_REQUIRE(seeded() && weights.size() == elements_ * sizeof(float));
    weights_ = std::move(weights);
  }

  // Returns the present state. Weights are shared; the optimizer's state is copied, because the
  // next update changes it. REQUIRES: seeded.
  WeightImage Image() const;
  // Continues from an image instead of first weights; everything is copied. Errors: InvalidArgument
  // naming what differs from this chunk (elements, vectors of state). REQUIRES: !seeded(), finite.
  // `seed_checksum`: of the first weights, if known.
  absl::Status Restore(const WeightImage& image, uint64_t seed_checksum = 0);

  const Bytes& weights() const { return weights_; }
  // Updates applied or skipped since the seed.
  uint64_t version() const { return version_; }
  uint32_t elements() const { return elements_; }
  // Whether a gradient of -0.0 marks an absent one.
  bool marks_absent() const { return rule_.marks_absent; }
  uint64_t samples() const { return samples_; }
  // Optimizer updates among these versions.
  uint64_t updates() const { return updates_; }
  // Bytes of weights, also those of the version before, and optimizer state.
  size_t bytes() const {
    const bool is_shared = previous_.data() == weights_.data();
    return weights_.size() + (is_shared ? 0 : previous_.size()) +
           (int{state0_ != nullptr} + int{state1_ != nullptr} + int{present_.missed() != nullptr}) *
               elements_ * sizeof(float);
  }

 private:
  // Returns a copy to update.
  std::shared_ptr<float> Owned(const Bytes& vector) const;

  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  const UpdateRule& rule_;
  const uint32_t elements_;
  const std::vector<OptimizerRun> runs_;

  Bytes weights_;
  bool keeps_previous_ = false;
  Bytes previous_;
  uint64_t seed_checksum_ = 0;
  std::shared_ptr<float> state0_, state1_;
  PresentUpdate present_;
  uint64_t version_ = 0;
  uint64_t updates_ = 0;
  uint64_t samples_ = 0;
};

}  // namespace strata::numerics

#endif  // STRATA_NUMERICS_WEIGHT_STATE_H_
