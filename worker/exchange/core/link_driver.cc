#include "worker/exchange/core/link_driver.h"

#include <algorithm>
#include <utility>

namespace strata::worker {
namespace {

// Returns whether the frame is part of a chunk's clock.
bool CarriesClock(const wire::Header& header) {
  const wire::Op op = header.op;
  return header.key_space == wire::KeySpace::kDense &&
         (op == wire::Op::kPushPull || op == wire::Op::kReduce || op == wire::Op::kGather);
}

}  // namespace

LinkDriver::LinkDriver(LinkCore* core, transport::Endpoint* endpoint, const ClockInterface* clock,
                       OnNode on_node, TraceLog* trace)
    : cores_({{core, {}}}),
      endpoint_(endpoint),
      clock_(clock),
      on_node_(std::move(on_node)),
      trace_(trace) {}

LinkDriver::Driven& LinkDriver::CoreOf(transport::ConnectionId connection) {
  return cores_[beside_.contains(connection) ? 1 : 0];
}

absl::Status LinkDriver::Poll(absl::Duration timeout) {
  absl::Time due = absl::InfiniteFuture();
  for (const Driven& driven : cores_) due = std::min(due, driven.core->deadline());
  const absl::Duration until_due = due - clock_->Now();
  events_.clear();
  endpoint_->Poll(std::max(absl::ZeroDuration(), std::min(timeout, until_due)), &events_);
  for (const transport::Event& event : events_) {
    if (absl::Status status = Act(Handle(event)); !status.ok()) return status;
  }
  for (Driven& driven : cores_) {
    absl::Status status =
        Act(driven.core->OnLinkEvent(LinkEvent::Time(), clock_->Now(), &driven.actions));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

transport::Refusals LinkDriver::refusals() const {
  transport::Refusals refusals = transport::RefusalsOf(endpoint_->use());
  if (malformed_ > 0) refusals["malformed"] = malformed_;
  return refusals;
}

absl::Status LinkDriver::Handle(const transport::Event& event) {
  const absl::Time now = clock_->Now();
  Driven& driven = CoreOf(event.connection);
  switch (event.kind) {
    case transport::Event::Kind::kFrame:
      return driven.core->OnLinkEvent(LinkEvent::Frame(event.connection, event.frame), now,
                                      &driven.actions);
    case transport::Event::Kind::kMalformed:
      if (!absl::IsPermissionDenied(event.error)) ++malformed_;
      break;
    case transport::Event::Kind::kDisconnected:
      break;
  }
  return driven.core->OnLinkEvent(LinkEvent::Lost(event.connection, event.error), now,
                                  &driven.actions);
}

absl::Status LinkDriver::Act(absl::Status status) {
  const auto asks = [](const Driven& driven) {
    return !driven.actions.wire.empty() || !driven.actions.node.empty();
  };
  while (std::any_of(cores_.begin(), cores_.end(), asks)) {
    for (Driven& driven : cores_) status = ActFor(&driven, std::move(status));
  }
  return status;
}

absl::Status LinkDriver::ActFor(Driven* driven, absl::Status status) {
  CoreActions actions;
  std::swap(actions, driven->actions);
  for (const WireAction& action : actions.wire) {
    absl::Status done = Do(action, driven);
    if (status.ok()) status = std::move(done);
  }
  for (const NodeAction& action : actions.node) {
    absl::Status done = on_node_(action, &driven->actions);
    if (status.ok()) status = std::move(done);
  }
  return status;
}

absl::Status LinkDriver::Send(const WireAction& action, absl::Time now, Driven* driven) {
  const wire::Header& header = action.frame.header;
  TraceLog* const trace = CarriesClock(header) ? trace_ : nullptr;
  TraceSpan span(trace, proto::TraceEvent::SEND, ChunkId(header.chunk),
                 trace != nullptr ? trace->StepOf(header.clock) : 0);
  absl::Status sent = endpoint_->Send(action.connection, action.frame);
  if (absl::IsResourceExhausted(sent)) {
    return driven->core->OnLinkEvent(LinkEvent::QueueFull(action), now, &driven->actions);
  }
  // A closed connection also shows as kDisconnected.
  return absl::IsNotFound(sent) ? absl::OkStatus() : sent;
}

absl::Status LinkDriver::Do(const WireAction& action, Driven* driven) {
  const absl::Time now = clock_->Now();
  switch (action.kind) {
    case WireAction::Kind::kConnect: {
      absl::StatusOr<transport::ConnectionId> connection =
          endpoint_->Connect(driven->core->address(action.link));
      if (connection.ok() && driven != &cores_[0]) beside_.insert(*connection);
      return driven->core->OnLinkEvent(
          connection.ok() ? LinkEvent::Connected(action.link, *connection)
                          : LinkEvent::ConnectFailed(action.link, connection.status()),
          now, &driven->actions);
    }
    case WireAction::Kind::kAdmit:
      endpoint_->Admit(action.connection, endpoint_->memory());
      break;
    case WireAction::Kind::kClose:
      endpoint_->Close(action.connection);
      beside_.erase(action.connection);
      break;
    case WireAction::Kind::kSend:
      return Send(action, now, driven);
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
