#ifndef STRATA_WORKER_EXCHANGE_LAYERS_EXCHANGE_LAYER_H_
#define STRATA_WORKER_EXCHANGE_LAYERS_EXCHANGE_LAYER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// A core between the node and another core: what it asks of the node, and what it delivers, is not
// what the core below does. Connections are the business of the core below alone.
//
// A pure state machine, see ExchangeCore.
class ExchangeLayer : public ExchangeCore {
 public:
  void Start(absl::Time now, CoreActions* actions) override;
  void OnConnected(LineId line, transport::ConnectionId connection, absl::Time now,
                   CoreActions* actions) override;
  void OnConnectFailed(LineId line, const absl::Status& why, absl::Time now,
                       CoreActions* actions) override;
  void OnLost(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
              CoreActions* actions) override;
  void OnNotTaken(const WireAction& send, absl::Time now) override {
    below_->OnNotTaken(send, now);
  }
  absl::Status OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       CoreActions* actions) override;
  absl::Status OnTime(absl::Time now, CoreActions* actions) override;
  absl::Time deadline() const override;
  const std::string& address(LineId line) const override { return below_->address(line); }

  Exchange::Phase phase() const override { return below_->phase(); }
  const ExchangeCounters& counters() const override { return below_->counters(); }
  size_t memory_bytes() const override { return below_->memory_bytes(); }
  void AddActivity(absl::Time now, proto::NodeActivity* activity) const override {
    below_->AddActivity(now, activity);
  }

 protected:
  explicit ExchangeLayer(std::unique_ptr<ExchangeCore> below) : below_(std::move(below)) {}

  // What the core below wants of the node: passes it on, changes it, or does it (GiveBelow).
  virtual absl::Status FromBelow(NodeAction action, absl::Time now, CoreActions* actions) = 0;

  // Calls the core below; what it wants goes through FromBelow.
  using Call = std::function<absl::Status(ExchangeCore* below, CoreActions* from)>;
  absl::Status Below(absl::Time now, CoreActions* actions, const Call& call);
  absl::Status SubmitBelow(ChunkId chunk, absl::Time now, CoreActions* actions);
  void FinishBelow(uint64_t clocks, absl::Time now, CoreActions* actions);
  // An error where nobody takes one: OnTime returns the first, and is due at once.
  void Later(absl::Status status);
  // Answers the core below.
  absl::Status GiveBelow(const NodeAction& asked, Bytes payload, uint32_t samples, absl::Time now,
                         CoreActions* actions);

 private:
  const std::unique_ptr<ExchangeCore> below_;
  absl::Status later_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_LAYERS_EXCHANGE_LAYER_H_
