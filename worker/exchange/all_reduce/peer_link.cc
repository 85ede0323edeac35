#include "worker/exchange/all_reduce/peer_link.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/diverged.h"

namespace strata::worker {
namespace {

using wire::Op;

}  // namespace

PeerLink::PeerLink(const Options& options)
    : options_(options),
      connection_(
          options.link, options.timing,
          options.connects ? Reconnector::Role::kConnects : Reconnector::Role::kIsConnectedTo,
          absl::StrCat(Name(), options.connects ? " could not be reached" : " has not connected")),
      resend_after_(options.timing.resend_after) {}

std::string PeerLink::Name() const {
  return absl::StrCat("node ", options_.peer, " (", options_.address, ")");
}

uint64_t PeerLink::bytes_sent(Op op) const {
  auto it = bytes_sent_.find(op);
  return it == bytes_sent_.end() ? 0 : it->second;
}

void PeerLink::Send(const wire::Header& header, Bytes payload, absl::Time now,
                    WireActions* actions) {
  wire::Frame frame{MakeHeader(options_.identity, header.op), std::move(payload)};
  frame.header.chunk = header.chunk;
  frame.header.clock = header.clock;
  frame.header.element_count = header.element_count;
  frame.header.sample_count = header.sample_count;
  frame.header.slice = header.slice;
  frame.header.rate = header.rate;
  frame.header.codec = header.codec;
  const std::pair<uint64_t, int64_t> urgency = {header.clock, -int64_t{header.chunk}};
  waiting_.emplace(Urgency{urgency, calls_++}, std::move(frame));
  Pump(now, actions);
}

void PeerLink::SendError(const absl::Status& reason, WireActions* actions) {
  if (!is_up()) return;
  auto text = std::make_shared<std::string>(reason.message());
  wire::Frame frame{MakeHeader(options_.identity, Op::kError),
                    Bytes(text, reinterpret_cast<const std::byte*>(text->data()), text->size())};
  // Peers of before take every error alike.
  frame.header.error =
      HasDiverged(reason) ? wire::ErrorCode::kNotFinite : wire::ErrorCode::kPeerFailed;
  Transmit(std::move(frame), actions);
}

void PeerLink::Transmit(wire::Frame frame, WireActions* actions) {
  // Every frame acknowledges, so separate acknowledgements are rare.
  frame.header.received = received_;
  received_bytes_ = 0;
  ack_due_ = absl::InfiniteFuture();
  bytes_sent_[frame.header.op] += FrameBytes(frame);
  actions->push_back({.kind = WireAction::Kind::kSend,
                      .link = options_.link,
                      .connection = connection_.connection(),
                      .frame = std::move(frame)});
}

void PeerLink::Pump(absl::Time now, WireActions* actions) {
  while (is_up() && !waiting_.empty()) {
    const uint64_t bytes = FrameBytes(waiting_.begin()->second);
    const bool fits = in_flight_bytes_ + bytes <= options_.in_flight_bytes_max;
    if (!unacknowledged_.empty() && !fits) return;
    wire::Frame frame = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    frame.header.sequence = ++sequence_;
    if (unacknowledged_.empty()) resend_due_ = now + resend_after_;
    in_flight_bytes_ += bytes;
    unacknowledged_.push_back({frame, now});
    Transmit(std::move(frame), actions);
  }
}

void PeerLink::Repeat(absl::Time now, WireActions* actions) {
  resend_due_ = unacknowledged_.empty() ? absl::InfiniteFuture() : now + resend_after_;
  for (const Sent& sent : unacknowledged_) {
    wire::Frame frame = sent.frame;
    frame.header.flags |= wire::kFlagReplay;
    Transmit(std::move(frame), actions);
  }
}

// Both sides have confirmed the connection, and the peer has said what it has received.
absl::Status PeerLink::Resume(uint64_t received, absl::Time now, WireActions* actions) {
  connection_.OnGreeted(actions);
  resend_after_ = options_.timing.resend_after;
  if (absl::Status status = Acknowledge(received, now); !status.ok()) return status;
  Repeat(now, actions);
  Pump(now, actions);
  return absl::OkStatus();
}

void PeerLink::OnConnected(transport::ConnectionId connection, absl::Time now,
                           WireActions* actions) {
  connection_.OnConnected(connection, now);
  Transmit(MakeHello(options_.identity), actions);
}

absl::Status PeerLink::OnHello(transport::ConnectionId connection, const wire::Header& hello,
                               absl::Time now, WireActions* actions) {
  if (connection_.is_up() && !Owns(connection)) {
    // The current connection's maker may be the peer, and this one a stranger that replays its
    // HELLO: the peer then comes back. Frames on a connection that is only forgotten are dropped
    // silently.
    Transmit({MakeHeader(options_.identity, Op::kRetry), Bytes()}, actions);
  }
  connection_.Adopt(connection, actions);
  Transmit({MakeHeader(options_.identity, Op::kHelloOk), Bytes()}, actions);
  return Resume(hello.received, now, actions);
}

void PeerLink::OnLost(const absl::Status& why, absl::Time now, WireActions* actions) {
  connection_.OnLost(why, now, actions);
  resend_due_ = ack_due_ = absl::InfiniteFuture();
}

void PeerLink::OnSendQueueFull(absl::Time now) {
  if (unacknowledged_.empty()) return;
  resend_due_ = std::min(resend_due_, now + options_.timing.backoff_min);
}

absl::Status PeerLink::Acknowledge(uint64_t received, absl::Time now) {
  if (received > sequence_) {
    return absl::InternalError(absl::StrFormat("%s acknowledges frame %d, but %d is the last one",
                                               Name(), received, sequence_));
  }
  bool progress = false;
  while (!unacknowledged_.empty() && unacknowledged_.front().frame.header.sequence <= received) {
    in_flight_bytes_ -= FrameBytes(unacknowledged_.front().frame);
    unacknowledged_.pop_front();
    progress = true;
  }
  if (!progress) return absl::OkStatus();
  resend_after_ = options_.timing.resend_after;
  resend_due_ = unacknowledged_.empty() ? absl::InfiniteFuture() : now + resend_after_;
  return absl::OkStatus();
}

std::string PeerLink::WhyNotYet(const wire::Header& retry) const {
  if (!connection_.is_greeting()) return "another connection took its place";
  if (retry.error == wire::ErrorCode::kWrongView)
    return "it does not exchange with these nodes yet";
  return "it does not know the job yet";
}

void PeerLink::SendAck(WireActions* actions) {
  if (is_up()) Transmit({MakeHeader(options_.identity, Op::kAck), Bytes()}, actions);
}

// Often enough that the peer need not wait for it, rarely enough to cost nothing.
void PeerLink::Receive(const wire::Frame& frame, absl::Time now, WireActions* actions) {
  received_ = frame.header.sequence;
  received_bytes_ += FrameBytes(frame);
  if (received_bytes_ >= options_.in_flight_bytes_max / 8 || frame.header.op == Op::kRetire) {
    return SendAck(actions);
  }
  ack_due_ = std::min(ack_due_, now + options_.ack_delay);
}

absl::StatusOr<bool> PeerLink::OnFrame(const wire::Frame& frame, absl::Time now,
                                       WireActions* actions) {
  const wire::Header& header = frame.header;
  if (header.op == Op::kError) {
    if (is_up() && header.error == wire::ErrorCode::kNotFinite) {
      return DivergedError(RefusalText(frame));
    }
    if (is_up()) return absl::FailedPreconditionError(RefusalText(frame));
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), " refused the connection: ", RefusalText(frame)));
  }
  if (header.op == Op::kRetry) {
    OnLost(absl::UnavailableError(WhyNotYet(header)), now, actions);
    return false;
  }
  if (header.op == Op::kHelloOk && connection_.is_greeting()) {
    if (absl::Status status = Resume(header.received, now, actions); !status.ok()) return status;
    return false;
  }
  if (!is_up()) return false;
  if (absl::Status status = Acknowledge(header.received, now); !status.ok()) return status;
  Pump(now, actions);
  if (!wire::IsSequenced(header.op)) return false;
  if (header.sequence != received_ + 1) {
    // A repetition whose acknowledgement was lost, or a frame after a lost one, which will be
    // repeated.
    ack_due_ = std::min(ack_due_, now + options_.ack_delay);
    return false;
  }
  Receive(frame, now, actions);
  return true;
}

absl::Status PeerLink::OnTime(absl::Time now, WireActions* actions) {
  const bool was_up = is_up();
  if (absl::Status status = connection_.OnTime(now, actions); !status.ok()) return status;
  if (!was_up) return absl::OkStatus();
  if (now >= resend_due_) {
    resend_after_ =
        std::min(resend_after_ * 2, options_.timing.resend_after * (1 << kResendDoublings));
    Repeat(now, actions);
  }
  if (now >= ack_due_) SendAck(actions);
  return absl::OkStatus();
}

absl::Time PeerLink::deadline() const {
  return is_up() ? std::min(resend_due_, ack_due_) : connection_.deadline();
}

LinkActivity PeerLink::Activity(absl::Time now) const {
  LinkActivity activity;
  connection_.Describe(now, &activity);
  activity.unanswered = static_cast<uint32_t>(unacknowledged_.size());
  if (!unacknowledged_.empty()) {
    activity.oldest_clock = unacknowledged_.front().frame.header.clock;
    activity.oldest_chunk = unacknowledged_.front().frame.header.chunk;
    activity.oldest_age = now - unacknowledged_.front().first;
  }
  return activity;
}

std::vector<RingNode> RingNodes(const proto::JobRecord& record) {
  const auto& nodes = record.view().nodes();
  std::vector<int> order(nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return nodes[a].first_rank() < nodes[b].first_rank(); });
  std::vector<RingNode> ring;
  for (const int i : order) ring.push_back({NodeId(nodes[i].node()), record.ring().endpoints(i)});
  return ring;
}

uint32_t RingPosition(const std::vector<RingNode>& nodes, NodeId node) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const RingNode& other) { return other.node == node; });
  return static_cast<uint32_t>(found - nodes.begin());
}

absl::Status CheckRingView(const proto::JobRecord& record, NodeId node) {
  const int nodes = record.view().nodes_size();
  if (nodes < 1) return absl::InvalidArgumentError("view.nodes has no nodes");
  if (record.ring().endpoints_size() != nodes) {
    return absl::InvalidArgumentError(absl::StrFormat("ring.endpoints has %d entries for %d nodes",
                                                      record.ring().endpoints_size(), nodes));
  }
  if (RingPosition(RingNodes(record), node) == static_cast<uint32_t>(nodes)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("view.nodes does not name node %d", node.value()));
  }
  return absl::OkStatus();
}

absl::Status CheckRing(const proto::JobRecord& record, NodeId node) {
  if (absl::Status status = CheckRingView(record, node); !status.ok()) return status;
  if (record.ring().algorithm() != proto::AllReduce::RING &&
      record.ring().algorithm() != proto::AllReduce::HALVING_DOUBLING) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "ring.algorithm is %d, not RING or HALVING_DOUBLING", record.ring().algorithm()));
  }
  if (record.layout().elements() == 0) return absl::InvalidArgumentError("layout is empty");
  if (record.placement().chunk_elements() == 0) {
    return absl::InvalidArgumentError("placement.chunk_elements is 0");
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
