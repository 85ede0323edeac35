#include "worker/exchange/all_reduce/link_probe.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "worker/exchange/all_reduce/peer_link.h"

namespace strata::worker {
namespace {

using wire::Op;

constexpr uint32_t kTrips = 16;
// Enough to measure 10 Gbit/s; takes 1.7 s at 10 Mbit/s.
constexpr uint32_t kBurstFrames = 8, kBurstFrameBytes = 256 << 10;
constexpr uint32_t kLostMax = 10;
// The generation of a probe's frames, so that they are not mistaken for the job's.
constexpr uint32_t kProbeGeneration = 0;

Bytes BurstPayload() {
  auto zeros = std::make_shared<std::vector<std::byte>>(kBurstFrameBytes);
  return Bytes(zeros, zeros->data(), zeros->size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkProbe>> LinkProbe::Create(const CoreOptions& options) {
  if (absl::Status status = CheckRingView(options.record, options.node); !status.ok()) {
    return status;
  }
  const std::vector<RingNode> nodes = RingNodes(options.record);
  const uint32_t position = RingPosition(nodes, options.node), n = nodes.size();
  const RingNode& next = nodes[(position + 1) % n];
  const RingNode& previous = nodes[(position + n - 1) % n];
  LinkIdentity identity = MakeIdentity(options);
  identity.generation = kProbeGeneration;
  const PeerLink::Options to_next = {.link = LinkId(0),
                                     .peer = next.node.value(),
                                     .address = next.endpoint,
                                     .connects = true,
                                     .identity = identity,
                                     .timing = options.timing};
  const PeerLink::Options from_previous = {.link = LinkId(1),
                                           .peer = previous.node.value(),
                                           .address = previous.endpoint,
                                           .connects = false,
                                           .identity = identity,
                                           .timing = options.timing};
  return std::unique_ptr<LinkProbe>(new LinkProbe(options, to_next, from_previous));
}

LinkProbe::LinkProbe(const CoreOptions& options, const PeerLink::Options& next,
                     const PeerLink::Options& previous)
    : options_(options), next_(next), previous_(previous) {
  // A peer that is late to connect here fails by itself.
  previous_.NeverGiveUp();
}

// RETIRE is acknowledged at once, a burst when all of it has come.
void LinkProbe::Go(absl::Time now, CoreActions* actions) {
  if (result_ || !next_.is_up()) return;
  if (waiting_) {
    if (!next_.drained()) return;
    waiting_ = false;
    const absl::Duration took = std::max(now - sent_at_, absl::Nanoseconds(100));
    if (round_ <= kTrips) {
      shortest_ = std::min(shortest_, took);
    } else {
      const absl::Duration sending = std::max(took - shortest_, took / 2);
      result_ = {
          .latency_s = absl::ToDoubleSeconds(shortest_) / 2,
          .bytes_per_s = double{kBurstFrames} * kBurstFrameBytes / absl::ToDoubleSeconds(sending)};
      next_.Close(&actions->wire);
      return;
    }
  }
  ++round_;
  waiting_ = true;
  sent_at_ = now;
  wire::Header header;
  header.clock = round_;
  if (round_ > kTrips) {
    const Bytes payload = BurstPayload();
    header.op = Op::kGather;
    header.element_count = kBurstFrameBytes / sizeof(float);
    for (uint32_t i = 0; i < kBurstFrames; ++i) {
      next_.Send(header, payload, now, &actions->wire);
    }
  }
  header = wire::Header();
  header.op = Op::kRetire;
  header.clock = round_;
  next_.Send(header, Bytes(), now, &actions->wire);
}

// Times over two connections would be meaningless, so it starts again.
void LinkProbe::OnLost(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
                       WireActions* actions) {
  if (previous_.Owns(connection)) previous_.OnLost(why, now, actions);
  if (!next_.Owns(connection) || result_) return;
  next_ = PeerLink(next_.options());
  round_ = 0;
  waiting_ = false;
  ++lost_;
  next_.Start(now, actions);
}

absl::Status LinkProbe::OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) {
  switch (event.kind) {
    case LinkEvent::Kind::kStart:
      next_.Start(now, &actions->wire);
      previous_.Start(now, &actions->wire);
      break;
    case LinkEvent::Kind::kFrame:
      return OnFrame(event.connection, *event.frame, now, actions);
    case LinkEvent::Kind::kTime:
      return OnTime(now, &actions->wire);
    case LinkEvent::Kind::kConnected:
      next_.OnConnected(event.connection, now, &actions->wire);
      break;
    case LinkEvent::Kind::kConnectFailed:
      next_.OnLost(event.why, now, &actions->wire);
      break;
    case LinkEvent::Kind::kLost:
      OnLost(event.connection, event.why, now, &actions->wire);
      break;
    case LinkEvent::Kind::kQueueFull:
      if (next_.Owns(event.connection)) next_.OnSendQueueFull(now);
      if (previous_.Owns(event.connection)) previous_.OnSendQueueFull(now);
      break;
  }
  return absl::OkStatus();
}

absl::Status LinkProbe::OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
                                absl::Time now, CoreActions* actions) {
  const wire::Header& header = frame.header;
  if (header.op == Op::kHello) {
    uint32_t number = 0;
    const wire::ErrorCode error = CheckPeerHello(previous_.options().identity, frame, &number);
    const bool from_previous = header.node == previous_.options().peer && number == 0;
    if (error == wire::ErrorCode::kNone && from_previous) {
      // A new probe counts its frames from 1.
      if (header.received == 0 && !previous_.Owns(connection)) {
        previous_.Close(&actions->wire);
        previous_ = PeerLink(previous_.options());
        previous_.NeverGiveUp();
      }
      return NamedBy(options_.node, previous_.OnHello(connection, header, now, &actions->wire));
    }
    const bool begins = error == wire::ErrorCode::kWrongGeneration;
    actions->wire.push_back(
        {.kind = WireAction::Kind::kSend,
         .link = LinkId(1),
         .connection = connection,
         .frame =
             MakeRefusal(previous_.options().identity, begins ? Op::kRetry : Op::kError,
                         error == wire::ErrorCode::kNone ? wire::ErrorCode::kWrongRole : error)});
    return absl::OkStatus();
  }
  if (previous_.Owns(connection)) {
    return NamedBy(options_.node, previous_.OnFrame(frame, now, &actions->wire).status());
  }
  if (!next_.Owns(connection)) return absl::OkStatus();
  const absl::Status status = next_.OnFrame(frame, now, &actions->wire).status();
  if (status.ok()) Go(now, actions);
  return NamedBy(options_.node, status);
}

absl::Status LinkProbe::OnTime(absl::Time now, WireActions* actions) {
  const absl::Status status = previous_.OnTime(now, actions);
  if (!status.ok()) return NamedBy(options_.node, status);
  if (result_) return absl::OkStatus();
  if (lost_ > kLostMax) {
    return NamedBy(options_.node, absl::UnavailableError(absl::StrFormat(
                                      "the line to %s broke %d times while it was measured",
                                      next_.Name(), lost_)));
  }
  return NamedBy(options_.node, next_.OnTime(now, actions));
}

absl::Time LinkProbe::deadline() const {
  return result_ ? previous_.deadline() : std::min(previous_.deadline(), next_.deadline());
}

void LinkProbe::Close(WireActions* actions) {
  next_.Close(actions);
  previous_.Close(actions);
}

}  // namespace strata::worker
