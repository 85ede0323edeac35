#include "worker/exchange/core_exchange.h"

#include <utility>

namespace strata::worker {

CoreExchange::CoreExchange(std::unique_ptr<ExchangeCore> core,
                           std::unique_ptr<transport::Endpoint> endpoint, int wake_fd,
                           ExchangeNode* node, const ClockInterface* clock)
    : core_(std::move(core)),
      endpoint_(std::move(endpoint)),
      node_(node),
      clock_(clock),
      driver_(
          core_.get(), endpoint_.get(), clock,
          [this](const NodeAction& action, CoreActions* actions) { return Do(action, actions); }) {
  if (wake_fd >= 0) endpoint_->WatchFd(wake_fd);
}

void CoreExchange::Start() {
  driver_.Run([&](absl::Time now, CoreActions* actions) { core_->Start(now, actions); });
}

void CoreExchange::Submit(ChunkId chunk) {
  driver_.Run([&](absl::Time, CoreActions* actions) { core_->Submit(chunk, actions); });
}

void CoreExchange::Finish(uint64_t clocks) {
  driver_.Run([&](absl::Time now, CoreActions* actions) { core_->Finish(clocks, now, actions); });
}

absl::Status CoreExchange::Do(const NodeAction& action, CoreActions* actions) {
  switch (action.kind) {
    case NodeAction::Kind::kFirstWeights:
      return core_->OnPayload(action, node_->FirstWeights(action.chunk), 0, clock_->Now(), actions);
    case NodeAction::Kind::kSum: {
      ExchangeNode::Sum sum = node_->TakeSum(action.chunk, action.clock);
      return core_->OnPayload(action, std::move(sum.bytes), sum.samples, clock_->Now(), actions);
    }
    case NodeAction::Kind::kDeliver:
      if (action.delta) {
        node_->AddToWeights(action.chunk, action.first_element, *action.delta);
      } else {
        node_->TakeWeights(action.chunk, action.first_element, action.weights);
      }
      if (action.lands) node_->Landed(action.chunk, action.clock);
      break;
    case NodeAction::Kind::kDeliverFinal:
      node_->TakeFinalWeights(action.chunk, action.weights);
      break;
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
