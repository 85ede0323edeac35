#ifndef STRATA_COMMON_IMAGE_CHUNK_IMAGE_H_
#define STRATA_COMMON_IMAGE_CHUNK_IMAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"

namespace strata {

// Weights and their optimizer's state between two updates. All vectors are fp32 of equal length.
struct WeightImage {
  uint64_t version = 0;  // updates applied or skipped
  uint64_t updates = 0;  // applied ones only
  uint64_t samples = 0;  // in those
  Bytes weights;
  std::vector<Bytes> state;  // as many vectors as StateVectors of the optimizer
  Bytes missed;              // updates that each element has missed; empty: none
};

// The state that a shard, or the owner of a slice, has of one range of the arena once its weights
// include all pushes before `clock`. If pushes are applied on arrival, the weights may include
// later ones, too: `applied` lists them.
struct ChunkImage {
  uint64_t begin = 0;  // first element of the range in the arena
  uint64_t clock = 0;
  WeightImage weights;
  std::vector<uint64_t> applied;  // by node: its pushes in the weights, from clock 0 on
  Bytes copy;         // the nodes' shared copy, if answers to all of them are encoded alike
  Bytes mean_square;  // of gradients, if delay compensation adapts to it
};

inline uint64_t BytesOf(const WeightImage& image) {
  uint64_t bytes = image.weights.size() + image.missed.size();
  for (const Bytes& vector : image.state) bytes += vector.size();
  return bytes;
}
inline uint64_t BytesOf(const ChunkImage& image) {
  return BytesOf(image.weights) + image.copy.size() + image.mean_square.size();
}

// Returns the image of `elements` elements of the arena from `begin` on, assembled from images that
// are cut differently. `images`: by range. Vectors are copied, unless all are of one image. Errors:
// DataLoss: elements that no image has, or counts that differ between images.
absl::StatusOr<ChunkImage> JoinImages(absl::Span<const ChunkImage> images, uint64_t begin,
                                      uint64_t elements);

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_CHUNK_IMAGE_H_
