#ifndef STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_LAYER_H_
#define STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

class CutLayer;

// A stage between the node and another stage. The requests and deliveries of the stage below pass
// through here: a layer forwards, changes or answers them. Layers do not deal with links.
//
// A pure state machine, see ExchangeStage.
class ExchangeLayer : public ExchangeStage {
 public:
  // Takes the actions of the stage below, and puts the remaining ones for the stages above into
  // `actions`. Errors: the first; the rest of `from` is processed all the same.
  absl::Status Filter(CoreActions from, absl::Time now, CoreActions* actions);

  // See ExchangeCore.
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

  // Calls of the stage below; its actions then pass through FromBelow.
  absl::Status SubmitBelow(ChunkId chunk, absl::Time now, CoreActions* actions);
  absl::Status FinishBelow(uint64_t clocks, absl::Time now, CoreActions* actions);
  absl::Status GiveBelow(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions);

 private:
  absl::Status Below(absl::Time now, CoreActions* actions,
                     const std::function<absl::Status(CoreActions* from)>& call);

  ExchangeStage* const below_;
};

// A core with layers on top of it. The node talks to the topmost layer, links to the core at the
// bottom; the core's requests to the node pass up through every layer.
//
// A pure state machine, see ExchangeCore.
class LayeredCore final : public ExchangeCore {
 public:
  explicit LayeredCore(std::unique_ptr<ExchangeCore> base) : base_(std::move(base)) {}

  // The stage on which the next layer is put.
  ExchangeStage* top() const;
  // `layer` was made for top().
  void Add(std::unique_ptr<ExchangeLayer> layer) { layers_.push_back(std::move(layer)); }
  // The same for the layer that makes the node's parts of checkpoints.
  void AddCuts(std::unique_ptr<CutLayer> layer);

  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override {
    return top()->Submit(chunk, now, actions);
  }
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override {
    return top()->Finish(clocks, now, actions);
  }
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override {
    return top()->OnPayload(asked, std::move(payload), step, now, actions);
  }

  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) override;
  absl::Time deadline() const override { return base_->deadline(); }
  const std::string& address(LinkId link) const override { return base_->address(link); }

  Phase phase() const override { return base_->phase(); }
  uint64_t first_clock() const override { return top()->first_clock(); }
  void AddToImage(ChunkId chunk, NodeChunkImage* image) override {
    top()->AddToImage(chunk, image);
  }
  absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) override {
    return top()->Restore(chunk, image);
  }
  NodeCuts TakeCuts() override;
  void ReleaseCut(NodeCuts::Kind kind, uint64_t clock) override;
  bool goes_on() const override;
  const ExchangeCounters& counters() const override { return base_->counters(); }
  size_t memory_bytes() const override;
  void LeaveAt(uint64_t clock) override { base_->LeaveAt(clock); }
  void OnShardMoved(const ShardMove& move, absl::Time now, CoreActions* actions) override {
    base_->OnShardMoved(move, now, actions);
  }
  absl::StatusOr<StoppedRing> StopRing(uint32_t number, absl::Time now,
                                       CoreActions* actions) override;
  absl::Status FormRing(const proto::FormRing& forming, absl::Time now,
                        CoreActions* actions) override;
  void AddActivity(absl::Time now, proto::NodeActivity* activity) const override {
    base_->AddActivity(now, activity);
  }

 private:
  // Passes the core's actions up through the layers into `actions`. Returns `status`, or if that is
  // OK the layers' first error.
  absl::Status PassUp(absl::Status status, CoreActions from, absl::Time now, CoreActions* actions);

  const std::unique_ptr<ExchangeCore> base_;
  std::vector<std::unique_ptr<ExchangeLayer>> layers_;  // each on top of the previous one
  CutLayer* cuts_ = nullptr;                            // one of them, or null
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_LAYER_H_
