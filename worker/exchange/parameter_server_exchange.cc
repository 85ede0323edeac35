#include "worker/exchange/parameter_server_exchange.h"

#include <algorithm>
#include <utility>

namespace strata::worker {

absl::StatusOr<std::unique_ptr<ParameterServerExchange>> ParameterServerExchange::Create(
    const ParameterServerCore::Options& options, std::unique_ptr<transport::Endpoint> endpoint,
    int wake_fd, ExchangeNode* node, const ClockInterface* clock) {
  absl::StatusOr<std::unique_ptr<ParameterServerCore>> core = ParameterServerCore::Create(options);
  if (!core.ok()) return core.status();
  if (wake_fd >= 0) endpoint->WatchFd(wake_fd);
  return std::unique_ptr<ParameterServerExchange>(
      new ParameterServerExchange(*std::move(core), std::move(endpoint), node, clock));
}

ParameterServerExchange::ParameterServerExchange(std::unique_ptr<ParameterServerCore> core,
                                                 std::unique_ptr<transport::Endpoint> endpoint,
                                                 ExchangeNode* node, const ClockInterface* clock)
    : core_(std::move(core)), endpoint_(std::move(endpoint)), node_(node), clock_(clock) {}

ParameterServerExchange::~ParameterServerExchange() = default;

void ParameterServerExchange::Start() {
  core_->Start(clock_->Now(), &actions_);
  Act();
}

void ParameterServerExchange::Submit(ChunkId chunk) {
  core_->Submit(chunk, &actions_);
  Act();
}

void ParameterServerExchange::Finish(uint64_t clocks) {
  core_->Finish(clocks, clock_->Now(), &actions_);
  Act();
}

absl::Status ParameterServerExchange::Poll(absl::Duration timeout) {
  const absl::Duration until_due = core_->deadline() - clock_->Now();
  events_.clear();
  endpoint_->Poll(std::max(absl::ZeroDuration(), std::min(timeout, until_due)), &events_);
  for (const transport::Event& event : events_) {
    if (absl::Status status = Handle(event); !status.ok()) return status;
    Act();
  }
  absl::Status status = core_->OnTime(clock_->Now(), &actions_);
  Act();
  if (core_->phase() == Phase::kFinished) {
    core_->Close(&actions_);
    Act();
  }
  return status;
}

absl::Status ParameterServerExchange::Handle(const transport::Event& event) {
  const absl::Time now = clock_->Now();
  switch (event.kind) {
    case transport::Event::Kind::kFrame:
      return core_->OnFrame(event.connection, event.frame, now, &actions_);
    case transport::Event::Kind::kMalformed:
    case transport::Event::Kind::kDisconnected:
      core_->OnLost(event.connection, event.error, now, &actions_);
      break;
  }
  return absl::OkStatus();
}

void ParameterServerExchange::Act() {
  while (!actions_.wire.empty() || !actions_.node.empty()) {
    CoreActions actions;
    std::swap(actions, actions_);
    for (const WireAction& action : actions.wire) Do(action);
    for (const NodeAction& action : actions.node) Do(action);
  }
}

void ParameterServerExchange::Do(const WireAction& action) {
  const absl::Time now = clock_->Now();
  switch (action.kind) {
    case WireAction::Kind::kConnect: {
      absl::StatusOr<transport::ConnectionId> connection =
          endpoint_->Connect(core_->address(action.shard));
      if (connection.ok()) {
        core_->OnConnected(action.shard, *connection, now, &actions_);
      } else {
        core_->OnConnectFailed(action.shard, connection.status(), now, &actions_);
      }
      break;
    }
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

void ParameterServerExchange::Do(const NodeAction& action) {
  switch (action.kind) {
    case NodeAction::Kind::kFirstWeights:
      core_->OnPayload(action, node_->FirstWeights(action.chunk), 0, clock_->Now(), &actions_);
      break;
    case NodeAction::Kind::kSum: {
      ExchangeNode::Sum sum = node_->TakeSum(action.chunk, action.clock);
      core_->OnPayload(action, std::move(sum.bytes), sum.samples, clock_->Now(), &actions_);
      break;
    }
    case NodeAction::Kind::kDeliver:
      node_->TakeWeights(action.chunk, action.clock, action.weights);
      break;
    case NodeAction::Kind::kDeliverFinal:
      node_->TakeFinalWeights(action.chunk, action.weights);
      break;
  }
}

}  // namespace strata::worker
