#ifndef STRATA_OPTIMIZER_STATE_IMAGE_H_
#define STRATA_OPTIMIZER_STATE_IMAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "common/job/optimizer.h"

namespace strata::kernels {

// Returns copies of an optimizer's vectors of `count` floats, for an image; null ones are left out.
std::vector<Bytes> CopyState(BufferPool& pool, const std::shared_ptr<float>& state0,
                             const std::shared_ptr<float>& state1, uint32_t count);

// Whether weights of so many elements and such an optimizer can go on from an image.
// Errors: InvalidArgument naming what differs.
absl::Status CheckImage(const WeightImage& image, OptimizerKind kind, uint32_t elements);

}  // namespace strata::kernels

#endif  // STRATA_OPTIMIZER_STATE_IMAGE_H_
