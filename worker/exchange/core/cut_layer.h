#ifndef STRATA_WORKER_EXCHANGE_CORE_CUT_LAYER_H_
#define STRATA_WORKER_EXCHANGE_CORE_CUT_LAYER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "common/image/cut_collector.h"
#include "common/image/node_image.h"
#include "common/job/arena.h"
#include "worker/exchange/core/exchange_layer.h"

namespace strata::worker {

// Makes the node's parts of checkpoints from the state of the stages below. A chunk is cut when its
// first sum after the checkpoint's clock is submitted: the previous answer has arrived, and nothing
// of the sum is encoded; after the job's last step, when that step's answer arrives.
//
// A pure state machine, see ExchangeStage.
class CutLayer final : public ExchangeLayer {
 public:
  // REQUIRES: the valid record from which `below` was made, with checkpoints and NodesKeepState.
  CutLayer(ExchangeStage* below, const proto::JobRecord& record);

  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override;
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override;
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override {
    return GiveBelow(asked, std::move(payload), step, now, actions);
  }
  size_t memory_bytes() const override { return cuts_.bytes(); }

  // `add` adds the state of a layer above, which outlives this one.
  void AlsoFrom(std::function<void(ChunkId, NodeChunkImage*)> add) { above_ = std::move(add); }

  std::vector<Cut<NodeChunkImage>> TakeCuts();
  void ReleaseCut(uint64_t clock) { cuts_.LetGo(clock); }

 protected:
  absl::Status FromBelow(NodeAction action, absl::Time now, CoreActions* actions) override;

 private:
  struct Progress {
    uint64_t submitted = 0, answered = 0;  // steps
  };
  // Cuts the chunk if `steps` steps of it end at a checkpoint's clock.
  void CutIfDue(ChunkId chunk, uint64_t steps);
  // The same after the last step.
  void MaybeCutLast(ChunkId chunk);
  // Fails if the job ends at a checkpoint's clock from which its nodes could not resume.
  void FailAt(uint64_t clock);

  const ChunkMap map_;
  const uint64_t steps_per_clock_, clocks_per_cut_;
  const bool has_rest_;  // a round with the remainder follows the last one
  std::function<void(ChunkId, NodeChunkImage*)> above_;  // null: nothing
  CutCollector<NodeChunkImage> cuts_;
  std::vector<std::optional<Progress>> chunks_;  // none: nothing was submitted
  std::optional<uint64_t> last_;                 // steps of the job, if it may be cut after them
  std::vector<Cut<NodeChunkImage>> failures_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_CUT_LAYER_H_
