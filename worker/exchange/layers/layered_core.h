#ifndef STRATA_WORKER_EXCHANGE_LAYERS_LAYERED_CORE_H_
#define STRATA_WORKER_EXCHANGE_LAYERS_LAYERED_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/layers/cut_layer.h"
#include "worker/exchange/layers/exchange_layer.h"

namespace strata::worker {

// A core with layers on top of it. The node speaks to the topmost layer, links to the core at the
// bottom; what that wants of the node passes up through every layer.
//
// A pure state machine, see ExchangeCore.
class LayeredCore final : public ExchangeCore {
 public:
  explicit LayeredCore(std::unique_ptr<ExchangeCore> base) : base_(std::move(base)) {}

  // The stage that the next layer is put on.
  ExchangeStage* top() const;
  // `layer` was made for top().
  void Add(std::unique_ptr<ExchangeLayer> layer) { layers_.push_back(std::move(layer)); }
  // Likewise, the layer that makes the node's parts of checkpoints.
  void AddCuts(std::unique_ptr<CutLayer> layer) {
    cuts_ = layer.get();
    Add(std::move(layer));
  }

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

  absl::Status Start(absl::Time now, CoreActions* actions) override;
  absl::Status OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       CoreActions* actions) override;
  absl::Status OnTime(absl::Time now, WireActions* actions) override {
    return base_->OnTime(now, actions);
  }
  absl::Time deadline() const override { return base_->deadline(); }
  void OnConnected(LinkId link, transport::ConnectionId connection, absl::Time now,
                   WireActions* actions) override {
    base_->OnConnected(link, connection, now, actions);
  }
  void OnConnectFailed(LinkId link, const absl::Status& why, absl::Time now,
                       WireActions* actions) override {
    base_->OnConnectFailed(link, why, now, actions);
  }
  void OnLost(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
              WireActions* actions) override {
    base_->OnLost(connection, why, now, actions);
  }
  void OnSendQueueFull(const WireAction& send, absl::Time now) override {
    base_->OnSendQueueFull(send, now);
  }
  const std::string& address(LinkId link) const override { return base_->address(link); }

  Exchange::Phase phase() const override { return base_->phase(); }
  uint64_t first_clock() const override { return top()->first_clock(); }
  void AddToImage(ChunkId chunk, NodeChunkImage* image) override {
    top()->AddToImage(chunk, image);
  }
  absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) override {
    return top()->Restore(chunk, image);
  }
  NodeCuts TakeCuts() override;
  void LetGoOf(NodeCuts::Kind kind, uint64_t clock) override;
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
  // Passes what the core wants up through the layers into `actions`. Returns `status`, or if that
  // is OK the layers' first error.
  absl::Status PassUp(absl::Status status, CoreActions from, absl::Time now, CoreActions* actions);

  const std::unique_ptr<ExchangeCore> base_;
  std::vector<std::unique_ptr<ExchangeLayer>> layers_;  // each on top of the one before
  CutLayer* cuts_ = nullptr;                            // one of them; null: there is none
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_LAYERS_LAYERED_CORE_H_
