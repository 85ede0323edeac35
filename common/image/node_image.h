#ifndef STRATA_COMMON_IMAGE_NODE_IMAGE_H_
#define STRATA_COMMON_IMAGE_NODE_IMAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "common/image/local_steps_image.h"
#include "common/image/push_image.h"

namespace strata {

// What a node knows of one range of the arena between two steps, beyond the weights that servers,
// or the owners of slices, have. What the job has no use for is not there.
struct NodeChunkImage {
  uint64_t begin = 0;     // of the range: its first element in the arena
  uint32_t elements = 0;  // of the range
  std::optional<PushImage> push;
  std::optional<LocalStepsImage> local;
  std::optional<WeightImage> norms;  // where nodes update by norms: their weights
  Bytes arena;                       // with double buffering: the weights that the step begins with
};

inline uint64_t BytesOf(const NodeChunkImage& image) {
  uint64_t bytes = image.arena.size();
  for (const Bytes& vector : image.push ? image.push->unsent : std::vector<Bytes>()) {
    bytes += vector.size();
  }
  if (image.local) bytes += BytesOf(image.local->own) + image.local->start.size();
  if (image.norms) bytes += BytesOf(*image.norms);
  return bytes;
}

struct NodeImage {
  uint32_t node = 0;
  uint64_t clock = 0;  // steps made
  std::vector<NodeChunkImage> chunks;
};

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_NODE_IMAGE_H_
