#ifndef STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_

#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/exchange_core.h"

namespace strata::worker {

// An exchange: drives an ExchangeCore over an endpoint.
//
// Threads: one.
class CoreExchange final : public Exchange {
 public:
  // `node` and `clock` outlive this. Poll also returns when `wake_fd` is readable (-1: none).
  CoreExchange(std::unique_ptr<ExchangeCore> core, std::unique_ptr<transport::Endpoint> endpoint,
               int wake_fd, ExchangeNode* node, const ClockInterface* clock);
  ~CoreExchange() override;

  void Start() override;
  void Submit(ChunkId chunk) override;
  void Finish(uint64_t clocks) override;
  absl::Status Poll(absl::Duration timeout) override;
  Phase phase() const override { return core_->phase(); }
  const ExchangeCounters& counters() const override { return core_->counters(); }
  void AddActivity(proto::NodeActivity* activity) const override {
    core_->AddActivity(clock_->Now(), activity);
  }

 private:
  void Handle(const transport::Event& event);
  // Does what the core wants until it wants nothing more.
  void Act();
  void Do(const WireAction& action);
  void Do(const NodeAction& action);
  void Keep(const absl::Status& status);

  const std::unique_ptr<ExchangeCore> core_;
  const std::unique_ptr<transport::Endpoint> endpoint_;
  ExchangeNode* const node_;
  const ClockInterface* const clock_;
  absl::Status status_;  // the first error of the core
  CoreActions actions_;
  std::vector<transport::Event> events_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_
