#ifndef STRATA_WORKER_EXCHANGE_CORE_DOUBLE_BUFFER_LAYER_H_
#define STRATA_WORKER_EXCHANGE_CORE_DOUBLE_BUFFER_LAYER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/buffer_pool.h"
#include "common/job/arena.h"
#include "worker/exchange/core/exchange_layer.h"

namespace strata::worker {

// Double buffering (`lazy { double_buffering: true }`; ChainerMN, Akiba et al. 2017): the node
// computes the gradients of step t while those of step t - 1 are exchanged, so that a step takes
// the longer of the two and not their sum.
//
//   w(1) = w(0),  w(t + 1) = w(t) after the update with the gradients of step t - 1, t >= 1
//
// The weights always lack exactly one clock, so a run's bits do not depend on timing. The final
// weights include the job's last gradients.
//
// A chunk's weights may change only between its publication and the next step's use of it: answers
// wait here for the publication, sums for the previous answer.
//
// A pure state machine, see ExchangeStage.
class DoubleBufferLayer final : public ExchangeLayer {
 public:
  // REQUIRES: the valid record from which `below`, which is sync, was made.
  DoubleBufferLayer(ExchangeStage* below, const proto::JobRecord& record);

  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override;
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override;
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override;

  // Adds the weights with which the step begins whose sum is being submitted, if that is the first
  // one after a checkpoint: a stage below makes the image.
  void AddArena(ChunkId chunk, NodeChunkImage* image) const;
  absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) override;

  // Continues with step `clock`. As always, the node's weights lack the sum of the previous step;
  // `weights` include it, and the next publication delivers them.
  // REQUIRES: nothing was submitted; clock >= 1, all of the chunk's weights.
  void GoOnAt(ChunkId chunk, uint64_t clock, Bytes weights);

  size_t memory_bytes() const override { return held_bytes_ + pool_.allocated_bytes(); }
  bool goes_on() const override { return under_way_ > 0; }

 protected:
  absl::Status FromBelow(NodeAction action, absl::Time now, CoreActions* actions) override;

 private:
  struct Sum {
    Bytes bytes;
    StepFacts step;
  };
  struct Chunk {
    uint64_t clock = 0;          // of the next sum
    bool under_way = false;      // the stage below has a sum
    Sum submitted;               // that one, until it is requested
    std::optional<Sum> waiting;  // the one after it
    std::vector<NodeAction> answer;
    Bytes arena;  // weights of the step after a checkpoint; kept for no other steps
  };

  // The previous answer goes to the node, and the waiting sum goes below.
  absl::Status Turn(ChunkId id, absl::Time now, CoreActions* actions);
  void Release(ChunkId id, bool lands, CoreActions* actions);
  // Keeps a copy of weights that a checkpoint will need, which come in parts.
  void Keep(ChunkId id, const std::vector<NodeAction>& parts);
  absl::Status TakeFirst(NodeAction action, CoreActions* actions);
  // Finishes once nothing waits any more.
  absl::Status MaybeFinish(absl::Time now, CoreActions* actions);

  const ChunkMap map_;
  const uint64_t clocks_per_cut_;  // 0: the job writes no checkpoints
  const uint64_t resume_clock_;    // 0: no checkpoint
  BufferPool pool_;
  std::vector<Chunk> chunks_;
  uint32_t waiting_ = 0, under_way_ = 0;  // chunks whose sum waits, or is below
  std::optional<uint64_t> clocks_;        // set at the end
  size_t held_bytes_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_DOUBLE_BUFFER_LAYER_H_
