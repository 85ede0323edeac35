#ifndef STRATA_NUMERICS_NORM_UPDATE_H_
#define STRATA_NUMERICS_NORM_UPDATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/job/arena.h"
#include "common/require.h"
#include "kernels/kernels.h"
#include "numerics/present_update.h"
#include "numerics/update.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"

namespace strata::numerics {

// Returns the sum of squares in double, in a fixed order: the same bits wherever it is computed.
double SumOfSquares(const float* x, size_t n);

// Updates that need norms of whole tensors, or of all weights: LARS (You et al. 2017, algorithm 1)
// and clipping by the global norm (Pascanu et al. 2013); formulas in proto/job.proto. Holds the
// weights of a whole arena with their optimizer state; the mean gradient of an update is supplied
// chunk by chunk, and applied once it is complete. Nodes with the same gradients have the same
// weights, bit for bit.
//
// Threads: one; returned weights may be read and released on any.
class NormUpdate {
 public:
  // A valid layout, cut by `map`; a job whose defaults are filled in, and whether its program says
  // rates; JobRecord's marks_absent. All outlives this.
  NormUpdate(const kernels::Kernels& kernels, BufferPool& pool, const proto::Job& job,
             uint64_t samples_per_epoch, const proto::Layout& layout, const ChunkMap& map,
             bool says_rates = false, bool marks_absent = false);

  // The first weights, fp32, copied.
  void Seed(ChunkId chunk, const Bytes& weights);

  // Returns the place for the mean gradient of the current update; until it is written, it holds
  // that of the previous update, and before the first one the first weights. REQUIRES: seeded.
  absl::Span<float> mean(ChunkId chunk) {
    STRATA_REQUIRE(chunks_[chunk.value()].mean != nullptr);
    return {chunks_[chunk.value()].mean.get(), map_.ElementsOf(chunk)};
  }
  // The chunk's mean is complete, once per update. Returns whether those of all chunks are.
  bool Complete(ChunkId chunk);
  // Makes the update, with `samples` more samples. REQUIRES: Complete has returned true.
  void Apply(uint64_t samples, const StepRate& rate = {});

  // Returns the chunk's state between two updates. Weights are shared; the optimizer's state is
  // copied.
  // REQUIRES: seeded, not complete.
  WeightImage Image(ChunkId chunk) const;
  // Continues from an image of the chunk instead of first weights; everything is copied. It does
  // not contain the mean of the previous update: zeros until the next one, or the content written
  // to mean(). All chunks are restored or none. Errors: InvalidArgument naming what differs from
  // this chunk, or from those restored before. REQUIRES: not seeded, finite.
  absl::Status Restore(ChunkId chunk, const WeightImage& image);

  const Bytes& weights(ChunkId chunk) const { return chunks_[chunk.value()].weights; }

 private:
  struct TensorRun {
    uint32_t tensor = 0;
    OptimizerRun run;
  };
  struct Chunk {
    std::vector<TensorRun> runs;
    Bytes weights;
    std::shared_ptr<float> mean, state0, state1;
    PresentUpdate present;
    bool complete = false;
  };
  struct Norms {
    double gradient = 0, weights = 0;  // squared, until they are complete
  };

  // Returns a copy to update.
  std::shared_ptr<float> Owned(const Bytes& vector) const;
  std::vector<Norms> MeasureNorms() const;  // by tensor
  double ClipFactor(const std::vector<Norms>& norms) const;
  kernels::OptimizerStep MakeStep(const OptimizerRun& run, const Norms& norms, const Update& update,
                                  double clip) const;

  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  const UpdateRule rule_;
  const double clip_norm_;         // 0: no clipping
  const double lars_coefficient_;  // 0: another optimizer
  const bool marks_absent_;
  const ChunkMap map_;
  std::vector<bool> averaged_;  // by tensor
  std::vector<Chunk> chunks_;
  uint32_t complete_ = 0;  // number of chunks
  uint64_t samples_ = 0, updates_ = 0;
  bool is_restored_ = false;
};

}  // namespace strata::numerics

#endif  // STRATA_NUMERICS_NORM_UPDATE_H_
