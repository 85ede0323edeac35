#ifndef STRATA_WORKER_EXCHANGE_CORE_CLIP_LAYER_H_
#define STRATA_WORKER_EXCHANGE_CORE_CLIP_LAYER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/buffer_pool.h"
#include "common/job/arena.h"
#include "worker/exchange/core/exchange_layer.h"

namespace strata::worker {

// Clipping by the global norm (Pascanu et al. 2013) if nodes are not in step: each scales its own
// mean gradient down before it is sent, which happens once all chunks of a step are there. Above
// local steps, it clips what these apply.
//
// A pure state machine, see ExchangeStage.
class ClipLayer final : public ExchangeLayer {
 public:
  // REQUIRES: the valid record from which `below` was made, with clip_norm.
  ClipLayer(ExchangeStage* below, const CoreOptions& options);

  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override;
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override;
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override;
  size_t memory_bytes() const override { return pool_.allocated_bytes(); }

 protected:
  absl::Status FromBelow(NodeAction action, absl::Time now, CoreActions* actions) override;

 private:
  struct Chunk {
    std::vector<OptimizerRun> runs;
    uint64_t sums = 0;  // taken so far
    Bytes sum;
    StepFacts step;
  };

  // Returns the factor for the step's sums.
  double Factor() const;
  Bytes Scaled(const Chunk& chunk, float factor);

  const double clip_norm_;
  const bool marks_absent_;
  BufferPool pool_;  // where peers on the host can read them
  std::vector<Chunk> chunks_;
  std::vector<ChunkId> held_;  // in order of arrival
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_CLIP_LAYER_H_
