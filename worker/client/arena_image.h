#ifndef STRATA_WORKER_CLIENT_ARENA_IMAGE_H_
#define STRATA_WORKER_CLIENT_ARENA_IMAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/image/chunk_image.h"
#include "common/job/arena.h"

namespace strata::client {

// The weights and optimizer state of a rank that updates them itself, in the form that checkpoints
// hold.
class ArenaImage {
 public:
  // An image of a whole arena, with `states` vectors of optimizer state (StateVectors). The caller
  // fills in its floats.
  ArenaImage(uint64_t elements, int states);
  // Joins a checkpoint's images of one clock, in the order of their ranges. Errors: DataLoss: they
  // do not make such an arena, or have different update counts.
  static absl::StatusOr<ArenaImage> Join(absl::Span<const ChunkImage> images, uint64_t elements,
                                         int states);

  // Weights are vector 0, states follow.
  int vectors() const { return static_cast<int>(vectors_.size()); }
  absl::Span<float> vector(int index) const {
    return {vectors_[index].get(), static_cast<size_t>(elements_)};
  }
  // Samples of all ranks in the updates so far.
  uint64_t samples() const { return samples_; }

  // Copies to and from vectors on the host; null for absent ones.
  void CopyFrom(const float* weights, const float* state0, const float* state1);
  void CopyTo(float* weights, float* state0, float* state1) const;

  // Returns one image per chunk, after `steps` steps with `samples` samples. They share the floats,
  // which must not change afterwards.
  std::vector<ChunkImage> Chunks(const ChunkMap& map, uint64_t steps, uint64_t samples) const;

 private:
  uint64_t elements_ = 0, samples_ = 0;
  std::vector<std::shared_ptr<float[]>> vectors_;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_ARENA_IMAGE_H_
