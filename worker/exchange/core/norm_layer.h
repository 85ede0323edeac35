#ifndef STRATA_WORKER_EXCHANGE_CORE_NORM_LAYER_H_
#define STRATA_WORKER_EXCHANGE_CORE_NORM_LAYER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/buffer_pool.h"
#include "common/job/arena.h"
#include "kernels/kernels.h"
#include "numerics/norm_update.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/exchange_layer.h"

namespace strata::worker {

// LARS, clipping of the mean gradient, and every optimizer in jobs that drop lost nodes: the core
// below only averages gradients (AppliesOnNodes) and delivers the mean of a clock. Each node
// applies the same update to weights of its own once all chunks are there, because the update needs
// norms over all of them.
//
// A pure state machine, see ExchangeStage.
class NormLayer final : public ExchangeLayer {
 public:
  // REQUIRES: a valid record from which `below` was made. `kernels` outlives it.
  NormLayer(ExchangeStage* below, const CoreOptions& options, const kernels::Kernels& kernels);

  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override;
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override;
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override;
  void AddToImage(ChunkId chunk, NodeChunkImage* image) override;
  absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) override;
  size_t memory_bytes() const override { return pool_.allocated_bytes(); }

 protected:
  absl::Status FromBelow(NodeAction action, absl::Time now, CoreActions* actions) override;

 private:
  void TakeFirst(NodeAction action, CoreActions* actions);
  void Take(const NodeAction& action, CoreActions* actions);
  void ReleaseFinals(CoreActions* actions);

  const ChunkMap map_;
  const NodeShare share_;
  BufferPool pool_;
  numerics::NormUpdate update_;
  StepFacts step_;                   // of the current clock
  uint64_t updates_ = 0;             // made here so far
  bool is_restored_ = false;         // resumed from a checkpoint
  std::optional<uint64_t> to_make_;  // total updates; absent: unknown
  std::vector<ChunkId> finals_;      // that wait for the last update
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_NORM_LAYER_H_
