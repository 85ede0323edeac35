#include "worker/exchange/core/exchange.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace strata::worker {

Exchange::Exchange(std::unique_ptr<ExchangeCore> core,
                   std::unique_ptr<transport::Endpoint> endpoint, int wake_fd, ExchangeNode* node,
                   const ClockInterface* clock, TraceLog* trace)
    : core_(std::move(core)),
      endpoint_(std::move(endpoint)),
      node_(node),
      clock_(clock),
      trace_(trace),
      driver_(
          core_.get(), endpoint_.get(), clock,
          [this](const NodeAction& action, CoreActions* actions) { return Do(action, actions); },
          trace) {
  if (wake_fd >= 0) endpoint_->WatchFd(wake_fd);
}

void Exchange::Add(std::unique_ptr<LinkCore> beside) {
  beside_ = std::move(beside);
  driver_.Add(beside_.get());
}

absl::Status Exchange::Start() {
  absl::Status status = driver_.Run([&](absl::Time now, CoreActions* actions) {
    return core_->OnLinkEvent(LinkEvent::Start(), now, actions);
  });
  if (!status.ok() || beside_ == nullptr) return status;
  return driver_.RunBeside([&](absl::Time now, CoreActions* actions) {
    return beside_->OnLinkEvent(LinkEvent::Start(), now, actions);
  });
}

absl::Status Exchange::Submit(ChunkId chunk) {
  if (core_->phase() != Phase::kTraining) {
    return absl::FailedPreconditionError(
        absl::StrFormat("chunk %d was published, but the node does not train", chunk.value()));
  }
  if (trace_ != nullptr) {
    if (ready_at_.size() <= chunk.value()) ready_at_.resize(chunk.value() + 1);
    ready_at_[chunk.value()] = trace_->Now();
  }
  return driver_.Run(
      [&](absl::Time now, CoreActions* actions) { return core_->Submit(chunk, now, actions); });
}

absl::Status Exchange::OnShardMoved(const ShardMove& move) {
  return driver_.Run([&](absl::Time now, CoreActions* actions) {
    core_->OnShardMoved(move, now, actions);
    return absl::OkStatus();
  });
}

absl::StatusOr<StoppedRing> Exchange::StopRing(uint32_t number) {
  absl::StatusOr<StoppedRing> stopped = StoppedRing();
  const absl::Status done = driver_.Run([&](absl::Time now, CoreActions* actions) {
    stopped = core_->StopRing(number, now, actions);
    return absl::OkStatus();
  });
  return done.ok() ? stopped : done;
}

absl::Status Exchange::FormRing(const proto::FormRing& forming) {
  return driver_.Run(
      [&](absl::Time now, CoreActions* actions) { return core_->FormRing(forming, now, actions); });
}

absl::Status Exchange::Finish(uint64_t clocks) {
  return driver_.Run(
      [&](absl::Time now, CoreActions* actions) { return core_->Finish(clocks, now, actions); });
}

absl::Status Exchange::Sum(const NodeAction& action, CoreActions* actions) {
  if (trace_ != nullptr && trace_->Wants(action.clock)) {
    trace_->Note(proto::TraceEvent::READY, action.chunk, action.clock,
                 ready_at_[action.chunk.value()], trace_->Now());
  }
  const auto log_of = [&](TraceLog::Phase phase) { return node_->Notes(phase) ? nullptr : trace_; };
  using proto::TraceEvent;
  ExchangeNode::Sum sum;
  {
    TraceSpan span(log_of(TraceEvent::SUM), TraceEvent::SUM, action.chunk, action.clock);
    sum = node_->TakeSum(action.chunk, action.clock);
  }
  TraceSpan span(log_of(TraceEvent::ENCODE), TraceEvent::ENCODE, action.chunk, action.clock);
  return core_->OnPayload(action, std::move(sum.bytes), sum.step, clock_->Now(), actions);
}

absl::Status Exchange::Deliver(const NodeAction& action) {
  TraceSpan span(trace_, proto::TraceEvent::DECODE, action.chunk, action.clock);
  absl::Status status =
      action.delta ? node_->AddToWeights(action.chunk, action.first_element, *action.delta)
                   : node_->TakeWeights(action.chunk, action.first_element, action.weights);
  if (!status.ok() || !action.lands) return status;
  return node_->Landed(action.chunk, action.clock);
}

absl::Status Exchange::Do(const NodeAction& action, CoreActions* actions) {
  switch (action.kind) {
    case NodeAction::Kind::kFirstWeights:
      return core_->OnPayload(action, node_->FirstWeights(action.chunk), {}, clock_->Now(),
                              actions);
    case NodeAction::Kind::kSum:
      return Sum(action, actions);
    case NodeAction::Kind::kDeliver:
      return Deliver(action);
    case NodeAction::Kind::kDeliverFirst:
      return node_->TakeFirstWeights(action.chunk, action.weights);
    case NodeAction::Kind::kDeliverFinal:
      return node_->TakeFinalWeights(action.chunk, action.weights);
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
