#ifndef STRATA_NUMERICS_PRESENT_UPDATE_H_
#define STRATA_NUMERICS_PRESENT_UPDATE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "common/job/optimizer.h"
#include "kernels/kernels.h"

namespace strata::numerics {

// Returns whether the gradient is -0.0, which marks an absent one.
inline bool IsAbsent(float gradient) { return std::bit_cast<uint32_t>(gradient) == 0x80000000; }

// Updates in which some elements do not participate. With JobRecord.marks_absent a gradient of -0.0
// says that no rank has a gradient of the element: its weight and its optimizer's state stay, as
// PyTorch leaves a parameter whose gradient is None. A sum is -0.0 only if all of its terms are,
// and ranks' present gradients never are.
//
// Adam's corrections depend on the updates that an element has had, so missed updates are counted,
// per element, once there are any.
//
// Threads: one.
class PresentUpdate {
 public:
  // The vectors of an update, of `count` elements; state vectors are null if the optimizer has
  // none.
  struct Vectors {
    const float* gradient = nullptr;
    const float* w_in = nullptr;
    float* w_out = nullptr;
    float* state0 = nullptr;
    float* state1 = nullptr;
  };

  // Examines the whole gradient of an update before it is applied. `marks_absent`: JobRecord's;
  // otherwise all elements are present.
  void Begin(BufferPool& pool, bool marks_absent, OptimizerKind kind,
             absl::Span<const float> gradient);
  // Applies `step` to the elements [begin, begin + count) of the vectors that are present; a mean
  // (OptimizerKind::kMean) is written to all.
  void Apply(const kernels::Kernels& kernels, const OptimizerParams& params,
             kernels::OptimizerStep step, const Vectors& whole, size_t begin, size_t count);

  // The number of updates that each element has missed; null: none has missed any, or the optimizer
  // does not count.
  const std::shared_ptr<float>& missed() const { return missed_; }
  void Restore(std::shared_ptr<float> missed) { missed_ = std::move(missed); }

 private:
  bool has_all_ = true;  // no element of the current update is absent, nor was one before
  std::shared_ptr<float> missed_;
};

// Copies an optimizer's vectors of `count` floats into an image; null ones are omitted. `missed`:
// PresentUpdate's.
void CopyState(BufferPool& pool, const std::shared_ptr<float>& state0,
               const std::shared_ptr<float>& state1, const std::shared_ptr<float>& missed,
               uint32_t count, WeightImage* image);

// Checks that weights with this many elements and this optimizer can continue from an image.
// Errors: InvalidArgument naming what differs.
absl::Status CheckImage(const WeightImage& image, OptimizerKind kind, uint32_t elements);

}  // namespace strata::numerics

#endif  // STRATA_NUMERICS_PRESENT_UPDATE_H_
