#ifndef STRATA_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_H_

#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/parameter_server_core.h"

namespace strata::worker {

// The exchange with servers: drives ParameterServerCore over an endpoint of its own.
//
// Threads: one.
class ParameterServerExchange final : public Exchange {
 public:
  // `node` and `clock` outlive this. Poll also returns when `wake_fd` is readable (-1: none).
  // Errors: those of ParameterServerCore::Create.
  static absl::StatusOr<std::unique_ptr<ParameterServerExchange>> Create(
      const ParameterServerCore::Options& options, std::unique_ptr<transport::Endpoint> endpoint,
      int wake_fd, ExchangeNode* node, const ClockInterface* clock);
  ~ParameterServerExchange() override;

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
  ParameterServerExchange(std::unique_ptr<ParameterServerCore> core,
                          std::unique_ptr<transport::Endpoint> endpoint, ExchangeNode* node,
                          const ClockInterface* clock);

  absl::Status Handle(const transport::Event& event);
  // Does what the core wants until it wants nothing more.
  void Act();
  void Do(const WireAction& action);
  void Do(const NodeAction& action);

  const std::unique_ptr<ParameterServerCore> core_;
  const std::unique_ptr<transport::Endpoint> endpoint_;
  ExchangeNode* const node_;
  const ClockInterface* const clock_;
  CoreActions actions_;
  std::vector<transport::Event> events_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_H_
