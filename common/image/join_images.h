#ifndef STRATA_COMMON_IMAGE_JOIN_IMAGES_H_
#define STRATA_COMMON_IMAGE_JOIN_IMAGES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/image/chunk_image.h"

namespace strata {

// Returns the image of `elements` elements of the arena from `begin` on, out of images that are cut
// in other places. `images`: by range. Vectors are copied, unless all are of one image. Errors:
// DataLoss: elements that no image has, or counts that differ from image to image.
absl::StatusOr<ChunkImage> JoinImages(absl::Span<const ChunkImage> images, uint64_t begin,
                                      uint64_t elements);

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_JOIN_IMAGES_H_
