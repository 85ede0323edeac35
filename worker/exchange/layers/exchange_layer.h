#ifndef STRATA_WORKER_EXCHANGE_LAYERS_EXCHANGE_LAYER_H_
#define STRATA_WORKER_EXCHANGE_LAYERS_EXCHANGE_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// A stage between the node and another stage. What the stage below asks of the node, and what it
// delivers, passes through here: a layer hands it on, changes it, or answers it. Links are no
// business of a layer's.
//
// A pure state machine, see ExchangeStage.
class ExchangeLayer : public ExchangeStage {
 public:
  // Takes what the stage below wants, and puts into `actions` what is left of it for those above.
  // Errors: the first; the rest of `from` is done all the same.
  absl::Status Filter(CoreActions from, absl::Time now, CoreActions* actions);

  // Whether sums that have landed are still on their way; see Exchange.
  virtual bool goes_on() const { return false; }
  uint64_t first_clock() const override { return below_->first_clock(); }
  void AddToImage(ChunkId chunk, NodeChunkImage* image) override {
    below_->AddToImage(chunk, image);
  }
  absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) override {
    return below_->Restore(chunk, image);
  }
  // Bytes of the layer's own buffers.
  virtual size_t memory_bytes() const { return 0; }

 protected:
  // `below` outlives it.
  explicit ExchangeLayer(ExchangeStage* below) : below_(below) {}

  // One action of the stage below.
  virtual absl::Status FromBelow(NodeAction action, absl::Time now, CoreActions* actions) = 0;

  // Calls of the stage below; what it wants then passes through FromBelow.
  absl::Status SubmitBelow(ChunkId chunk, absl::Time now, CoreActions* actions);
  absl::Status FinishBelow(uint64_t clocks, absl::Time now, CoreActions* actions);
  absl::Status GiveBelow(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions);

 private:
  absl::Status Below(absl::Time now, CoreActions* actions,
                     const std::function<absl::Status(CoreActions* from)>& call);

  ExchangeStage* const below_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_LAYERS_EXCHANGE_LAYER_H_
