#ifndef STRATA_COMMON_IMAGE_NODE_IMAGE_H_
#define STRATA_COMMON_IMAGE_NODE_IMAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/bytes.h"
#include "common/image/chunk_image.h"

namespace strata {

// A node's state of one chunk between two encoded pushes.
struct PushImage {
  std::vector<Bytes> unsent;  // fp32, as of Encoder::State: what was not sent; for DGC v and u
  uint64_t samples = 0;       // of the sums so far, if the density depends on them
};

// A node's state of one chunk between two rounds of local steps.
struct LocalStepsImage {
  uint64_t clock = 0;         // steps made
  uint32_t last_samples = 0;  // of the last round
  WeightImage own;            // its weights, with the state of its own optimizer
  Bytes start;                // fp32: the weights from which changes are counted
};

// A node's state of one range of the arena between two steps, beyond the weights of servers, or of
// the owners of slices. Parts that the job does not use are absent.
struct NodeChunkImage {
  uint64_t begin = 0;     // first element of the range in the arena
  uint32_t elements = 0;  // of the range
  std::optional<PushImage> push;
  std::optional<LocalStepsImage> local;
  std::optional<WeightImage> norms;  // if nodes update by norms: their weights
  Bytes arena;                       // with double buffering: the weights with which the step
                                     // begins
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
