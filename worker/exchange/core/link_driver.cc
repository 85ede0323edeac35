#include "worker/exchange/core/link_driver.h"

#include <algorithm>
#include <utility>

namespace strata::worker {
namespace {

// Returns whether frames of this op are part of a chunk's clock.
bool CarriesClock(wire::Op op) {
  return op == wire::Op::kPushPull || op == wire::Op::kReduce || op == wire::Op::kGather;
}

}  // namespace

LinkDriver::LinkDriver(LinkCore* core, transport::Endpoint* endpoint, const ClockInterface* clock,
                       OnNode on_node, TraceLog* trace)
    : core_(core),
      endpoint_(endpoint),
      clock_(clock),
      on_node_(std::move(on_node)),
      trace_(trace) {}

absl::Status LinkDriver::Poll(absl::Duration timeout) {
  const absl::Duration until_due = core_->deadline() - clock_->Now();
  events_.clear();
  endpoint_->Poll(std::max(absl::ZeroDuration(), std::min(timeout, until_due)), &events_);
  for (const transport::Event& event : events_) {
    if (absl::Status status = Act(Handle(event)); !status.ok()) return status;
  }
  return Act(core_->OnLinkEvent(LinkEvent::Time(), clock_->Now(), &actions_));
}

transport::Refusals LinkDriver::refusals() const {
  transport::Refusals refusals = transport::RefusalsOf(endpoint_->use());
  if (malformed_ > 0) refusals["malformed"] = malformed_;
  return refusals;
}

absl::Status LinkDriver::Handle(const transport::Event& event) {
  const absl::Time now = clock_->Now();
  switch (event.kind) {
    case transport::Event::Kind::kFrame:
      return core_->OnLinkEvent(LinkEvent::Frame(event.connection, event.frame), now, &actions_);
    case transport::Event::Kind::kMalformed:
      if (!absl::IsPermissionDenied(event.error)) ++malformed_;
      break;
    case transport::Event::Kind::kDisconnected:
      break;
  }
  return core_->OnLinkEvent(LinkEvent::Lost(event.connection, event.error), now, &actions_);
}

absl::Status LinkDriver::Act(absl::Status status) {
  while (!actions_.wire.empty() || !actions_.node.empty()) {
    CoreActions actions;
    std::swap(actions, actions_);
    for (const WireAction& action : actions.wire) {
      absl::Status done = Do(action);
      if (status.ok()) status = std::move(done);
    }
    for (const NodeAction& action : actions.node) {
      absl::Status done = on_node_(action, &actions_);
      if (status.ok()) status = std::move(done);
    }
  }
  return status;
}

absl::Status LinkDriver::Send(const WireAction& action, absl::Time now) {
  const wire::Header& header = action.frame.header;
  TraceLog* const trace = CarriesClock(header.op) ? trace_ : nullptr;
  TraceSpan span(trace, proto::TraceEvent::SEND, ChunkId(header.chunk),
                 trace != nullptr ? trace->StepOf(header.clock) : 0);
  // A closed connection also shows as kDisconnected; only a full queue must be reported.
  if (endpoint_->Send(action.connection, action.frame).code() ==
      absl::StatusCode::kResourceExhausted) {
    return core_->OnLinkEvent(LinkEvent::QueueFull(action), now, &actions_);
  }
  return absl::OkStatus();
}

absl::Status LinkDriver::Do(const WireAction& action) {
  const absl::Time now = clock_->Now();
  switch (action.kind) {
    case WireAction::Kind::kConnect: {
      absl::StatusOr<transport::ConnectionId> connection =
          endpoint_->Connect(core_->address(action.link));
      return core_->OnLinkEvent(connection.ok()
                                    ? LinkEvent::Connected(action.link, *connection)
                                    : LinkEvent::ConnectFailed(action.link, connection.status()),
                                now, &actions_);
    }
    case WireAction::Kind::kAdmit:
      endpoint_->Admit(action.connection, endpoint_->memory());
      break;
    case WireAction::Kind::kClose:
      endpoint_->Close(action.connection);
      break;
    case WireAction::Kind::kSend:
      return Send(action, now);
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
