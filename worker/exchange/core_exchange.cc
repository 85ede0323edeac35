#include "worker/exchange/core_exchange.h"

#include <algorithm>
#include <utility>

namespace strata::worker {

CoreExchange::CoreExchange(std::unique_ptr<ExchangeCore> core,
                           std::unique_ptr<transport::Endpoint> endpoint, int wake_fd,
                           ExchangeNode* node, const ClockInterface* clock)
    : core_(std::move(core)), endpoint_(std::move(endpoint)), node_(node), clock_(clock) {
  if (wake_fd >= 0) endpoint_->WatchFd(wake_fd);
}

CoreExchange::~CoreExchange() = default;

void CoreExchange::Start() {
  core_->Start(clock_->Now(), &actions_);
  Act();
}

void CoreExchange::Submit(ChunkId chunk) {
  core_->Submit(chunk, &actions_);
  Act();
}

void CoreExchange::Finish(uint64_t clocks) {
  core_->Finish(clocks, clock_->Now(), &actions_);
  Act();
}

absl::Status CoreExchange::Poll(absl::Duration timeout) {
  if (!status_.ok()) return status_;
  const absl::Duration until_due = core_->deadline() - clock_->Now();
  events_.clear();
  endpoint_->Poll(std::max(absl::ZeroDuration(), std::min(timeout, until_due)), &events_);
  for (const transport::Event& event : events_) {
    Handle(event);
    Act();
    if (!status_.ok()) return status_;
  }
  Keep(core_->OnTime(clock_->Now(), &actions_));
  Act();
  return status_;
}

void CoreExchange::Handle(const transport::Event& event) {
  const absl::Time now = clock_->Now();
  switch (event.kind) {
    case transport::Event::Kind::kFrame:
      Keep(core_->OnFrame(event.connection, event.frame, now, &actions_));
      break;
    case transport::Event::Kind::kMalformed:
    case transport::Event::Kind::kDisconnected:
      core_->OnLost(event.connection, event.error, now, &actions_);
      break;
  }
}

void CoreExchange::Keep(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

void CoreExchange::Act() {
  while (!actions_.wire.empty() || !actions_.node.empty()) {
    CoreActions actions;
    std::swap(actions, actions_);
    for (const WireAction& action : actions.wire) Do(action);
    for (const NodeAction& action : actions.node) Do(action);
  }
}

void CoreExchange::Do(const WireAction& action) {
  const absl::Time now = clock_->Now();
  switch (action.kind) {
    case WireAction::Kind::kConnect: {
      absl::StatusOr<transport::ConnectionId> connection =
          endpoint_->Connect(core_->address(action.line));
      if (connection.ok()) {
        core_->OnConnected(action.line, *connection, now, &actions_);
      } else {
        core_->OnConnectFailed(action.line, connection.status(), now, &actions_);
      }
      break;
    }
    case WireAction::Kind::kAdmit:
      endpoint_->Admit(action.connection);
      break;
    case WireAction::Kind::kClose:
      endpoint_->Close(action.connection);
      break;
    case WireAction::Kind::kSend:
      // A connection that is gone shows as kDisconnected too; only a full queue needs a word.
      if (endpoint_->Send(action.connection, action.frame).code() ==
          absl::StatusCode::kResourceExhausted) {
        core_->OnNotTaken(action, now);
      }
      break;
  }
}

void CoreExchange::Do(const NodeAction& action) {
  switch (action.kind) {
    case NodeAction::Kind::kFirstWeights:
      Keep(
          core_->OnPayload(action, node_->FirstWeights(action.chunk), 0, clock_->Now(), &actions_));
      break;
    case NodeAction::Kind::kSum: {
      ExchangeNode::Sum sum = node_->TakeSum(action.chunk, action.clock);
      Keep(core_->OnPayload(action, std::move(sum.bytes), sum.samples, clock_->Now(), &actions_));
      break;
    }
    case NodeAction::Kind::kDeliver:
      node_->TakeWeights(action.chunk, action.first_element, action.weights);
      if (action.lands) node_->Landed(action.chunk, action.clock);
      break;
    case NodeAction::Kind::kDeliverFinal:
      node_->TakeFinalWeights(action.chunk, action.weights);
      break;
  }
}

}  // namespace strata::worker
