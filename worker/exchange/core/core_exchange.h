#ifndef STRATA_WORKER_EXCHANGE_CORE_CORE_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_CORE_CORE_EXCHANGE_H_

#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/trace/trace_log.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/link_driver.h"

namespace strata::worker {

// An exchange: an ExchangeCore between an endpoint and the node.
//
// Threads: one.
class CoreExchange final : public Exchange {
 public:
  // `node`, `clock` and `trace` (null: none) outlive this. Poll also returns when `wake_fd` is
  // readable (-1: none).
  CoreExchange(std::unique_ptr<ExchangeCore> core, std::unique_ptr<transport::Endpoint> endpoint,
               int wake_fd, ExchangeNode* node, const ClockInterface* clock,
               TraceLog* trace = nullptr);

  absl::Status Start() override;
  absl::Status Submit(ChunkId chunk) override;
  absl::Status Finish(uint64_t clocks) override;
  absl::Status Poll(absl::Duration timeout) override { return driver_.Poll(timeout); }
  Phase phase() const override { return core_->phase(); }
  uint64_t first_clock() const override { return core_->first_clock(); }
  bool goes_on() const override { return core_->goes_on(); }
  NodeCuts TakeCuts() override { return core_->TakeCuts(); }
  void LetGoOf(NodeCuts::Kind kind, uint64_t clock) override { core_->LetGoOf(kind, clock); }
  absl::Status OnShardMoved(const ShardMove& move) override {
    return driver_.Run([&](absl::Time now, CoreActions* actions) {
      core_->OnShardMoved(move, now, actions);
      return absl::OkStatus();
    });
  }
  void LeaveAt(uint64_t clock) override { core_->LeaveAt(clock); }
  absl::StatusOr<StoppedRing> StopRing(uint32_t number) override;
  absl::Status FormRing(const proto::FormRing& forming) override;
  const ExchangeCounters& counters() const override { return core_->counters(); }
  size_t memory_bytes() const override { return core_->memory_bytes(); }
  transport::Refusals refusals() const override { return driver_.refusals(); }
  void AddActivity(proto::NodeActivity* activity) const override {
    core_->AddActivity(clock_->Now(), activity);
  }

 private:
  absl::Status Do(const NodeAction& action, CoreActions* actions);
  absl::Status Sum(const NodeAction& action, CoreActions* actions);
  absl::Status Deliver(const NodeAction& action);

  const std::unique_ptr<ExchangeCore> core_;
  const std::unique_ptr<transport::Endpoint> endpoint_;
  ExchangeNode* const node_;
  const ClockInterface* const clock_;
  TraceLog* const trace_;
  std::vector<absl::Time> ready_at_;  // by chunk; where there is a trace
  LinkDriver driver_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_CORE_EXCHANGE_H_
