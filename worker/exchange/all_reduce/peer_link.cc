#include "worker/exchange/all_reduce/peer_link.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::worker {
namespace {

using wire::Op;

}  // namespace

PeerLink::PeerLink(const Options& options)
    : options_(options),
      backoff_(options.timing.backoff_min),
      resend_after_(options.timing.resend_after) {}

std::string PeerLink::Name() const {
  return absl::StrCat("node ", options_.peer, " (", options_.address, ")");
}

uint64_t PeerLink::bytes_sent(Op op) const {
  auto it = bytes_sent_.find(op);
  return it == bytes_sent_.end() ? 0 : it->second;
}

void PeerLink::Start(absl::Time now, std::vector<WireAction>* actions) {
  down_since_ = now;
  if (!options_.connects) return;
  state_ = State::kConnecting;
  actions->push_back({.kind = WireAction::Kind::kConnect, .line = options_.line});
}

void PeerLink::Send(const wire::Header& header, Bytes payload, absl::Time now,
                    std::vector<WireAction>* actions) {
  wire::Frame frame{HeaderOf(options_.identity, header.op), std::move(payload)};
  frame.header.chunk = header.chunk;
  frame.header.clock = header.clock;
  frame.header.element_count = header.element_count;
  frame.header.sample_count = header.sample_count;
  frame.header.slice = header.slice;
  frame.header.codec = header.codec;
  const std::pair<uint64_t, int64_t> urgency = {header.clock, -int64_t{header.chunk}};
  waiting_.emplace(Urgency{urgency, calls_++}, std::move(frame));
  Pump(now, actions);
}

void PeerLink::SendError(const std::string& reason, std::vector<WireAction>* actions) {
  if (state_ != State::kUp) return;
  auto text = std::make_shared<std::string>(reason);
  wire::Frame frame{HeaderOf(options_.identity, Op::kError),
                    Bytes(text, reinterpret_cast<const std::byte*>(text->data()), text->size())};
  frame.header.error = wire::ErrorCode::kPeerFailed;
  Transmit(std::move(frame), actions);
}

void PeerLink::Transmit(wire::Frame frame, std::vector<WireAction>* actions) {
  // Every frame says what has come, so that a separate word is seldom needed.
  frame.header.received = received_;
  received_bytes_ = 0;
  ack_due_ = absl::InfiniteFuture();
  bytes_sent_[frame.header.op] += BytesOf(frame);
  actions->push_back({.kind = WireAction::Kind::kSend,
                      .line = options_.line,
                      .connection = *connection_,
                      .frame = std::move(frame)});
}

void PeerLink::Pump(absl::Time now, std::vector<WireAction>* actions) {
  while (state_ == State::kUp && !waiting_.empty()) {
    const uint64_t bytes = BytesOf(waiting_.begin()->second);
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

void PeerLink::Repeat(absl::Time now, std::vector<WireAction>* actions) {
  resend_due_ = unacknowledged_.empty() ? absl::InfiniteFuture() : now + resend_after_;
  for (const Sent& sent : unacknowledged_) {
    wire::Frame frame = sent.frame;
    frame.header.flags |= wire::kFlagReplay;
    Transmit(std::move(frame), actions);
  }
}

// The connection is confirmed on both sides and the peer has said what it has.
absl::Status PeerLink::Resume(uint64_t received, absl::Time now, std::vector<WireAction>* actions) {
  state_ = State::kUp;
  state_due_ = down_since_ = absl::InfiniteFuture();
  backoff_ = options_.timing.backoff_min;
  resend_after_ = options_.timing.resend_after;
  if (absl::Status status = Acknowledge(received, now); !status.ok()) return status;
  Repeat(now, actions);
  Pump(now, actions);
  return absl::OkStatus();
}

void PeerLink::OnConnected(transport::ConnectionId connection, absl::Time now,
                           std::vector<WireAction>* actions) {
  connection_ = connection;
  state_ = State::kGreeting;
  state_due_ = now + options_.timing.hello_timeout;
  Transmit(HelloOf(options_.identity), actions);
}

absl::Status PeerLink::OnHello(transport::ConnectionId connection, const wire::Header& hello,
                               absl::Time now, std::vector<WireAction>* actions) {
  if (connection_ && connection_ != connection) {
    // Whoever made it may be the peer, and this one a stranger with a copy of its HELLO: the peer
    // comes back then. What a connection that is only forgotten sends is dropped without a word.
    Transmit({HeaderOf(options_.identity, Op::kRetry), Bytes()}, actions);
    Close(actions);
  }
  connection_ = connection;
  actions->push_back(
      {.kind = WireAction::Kind::kAdmit, .line = options_.line, .connection = connection});
  Transmit({HeaderOf(options_.identity, Op::kHelloOk), Bytes()}, actions);
  return Resume(hello.received, now, actions);
}

void PeerLink::PlanReconnect(absl::Time now) {
  if (state_ == State::kUp) {
    down_since_ = now;
    backoff_ = options_.timing.backoff_min;
  }
  state_ = State::kIdle;
  resend_due_ = ack_due_ = absl::InfiniteFuture();
  if (!options_.connects) return;
  state_due_ = now + backoff_;
  backoff_ = std::min(backoff_ * 2, options_.timing.backoff_max);
}

void PeerLink::OnLost(const absl::Status& why, absl::Time now, std::vector<WireAction>* actions) {
  if (!why.ok()) last_loss_ = why;
  Close(actions);
  PlanReconnect(now);
}

void PeerLink::Close(std::vector<WireAction>* actions) {
  if (!connection_) return;
  actions->push_back(
      {.kind = WireAction::Kind::kClose, .line = options_.line, .connection = *connection_});
  connection_.reset();
}

void PeerLink::OnNotTaken(absl::Time now) {
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
    in_flight_bytes_ -= BytesOf(unacknowledged_.front().frame);
    unacknowledged_.pop_front();
    progress = true;
  }
  if (!progress) return absl::OkStatus();
  resend_after_ = options_.timing.resend_after;
  resend_due_ = unacknowledged_.empty() ? absl::InfiniteFuture() : now + resend_after_;
  return absl::OkStatus();
}

void PeerLink::SendAck(std::vector<WireAction>* actions) {
  if (state_ == State::kUp) Transmit({HeaderOf(options_.identity, Op::kAck), Bytes()}, actions);
}

// Often enough that the peer need not wait for it, seldom enough to cost nothing.
void PeerLink::Receive(const wire::Frame& frame, absl::Time now, std::vector<WireAction>* actions) {
  received_ = frame.header.sequence;
  received_bytes_ += BytesOf(frame);
  if (received_bytes_ >= options_.in_flight_bytes_max / 8 || frame.header.op == Op::kRetire) {
    return SendAck(actions);
  }
  ack_due_ = std::min(ack_due_, now + options_.ack_delay);
}

absl::StatusOr<bool> PeerLink::OnFrame(const wire::Frame& frame, absl::Time now,
                                       std::vector<WireAction>* actions) {
  const wire::Header& header = frame.header;
  if (header.op == Op::kError) {
    if (state_ == State::kUp) return absl::FailedPreconditionError(TextOf(frame));
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), " refused the connection: ", TextOf(frame)));
  }
  if (header.op == Op::kRetry) {
    OnLost(absl::UnavailableError(state_ == State::kGreeting ? "it does not know the job yet"
                                                             : "another connection took its place"),
           now, actions);
    return false;
  }
  if (header.op == Op::kHelloOk && state_ == State::kGreeting) {
    if (absl::Status status = Resume(header.received, now, actions); !status.ok()) return status;
    return false;
  }
  if (state_ != State::kUp) return false;
  if (absl::Status status = Acknowledge(header.received, now); !status.ok()) return status;
  Pump(now, actions);
  if (!wire::IsSequenced(header.op)) return false;
  if (header.sequence != received_ + 1) {
    // A repetition: its acknowledgement was lost. Or one before it was: it will be repeated.
    ack_due_ = std::min(ack_due_, now + options_.ack_delay);
    return false;
  }
  Receive(frame, now, actions);
  return true;
}

absl::Status PeerLink::OnTime(absl::Time now, std::vector<WireAction>* actions) {
  if (state_ != State::kUp && !resting_ && now >= down_since_ + options_.timing.give_up_after) {
    return absl::UnavailableError(absl::StrFormat(
        "%s %s for %s%s", Name(), options_.connects ? "could not be reached" : "has not connected",
        absl::FormatDuration(options_.timing.give_up_after),
        last_loss_.ok() ? "" : absl::StrCat(" (", std::string(last_loss_.message()), ")")));
  }
  if (state_ == State::kIdle && now >= state_due_) {
    state_ = State::kConnecting;
    state_due_ = absl::InfiniteFuture();
    actions->push_back({.kind = WireAction::Kind::kConnect, .line = options_.line});
  } else if (state_ == State::kGreeting && now >= state_due_) {
    OnLost(absl::DeadlineExceededError("no answer to HELLO"), now, actions);
  } else if (state_ == State::kUp) {
    if (now >= resend_due_) {
      resend_after_ =
          std::min(resend_after_ * 2, options_.timing.resend_after * (1 << kResendDoublings));
      Repeat(now, actions);
    }
    if (now >= ack_due_) SendAck(actions);
  }
  return absl::OkStatus();
}

absl::Time PeerLink::deadline() const {
  if (state_ == State::kUp) return std::min(resend_due_, ack_due_);
  if (resting_) return state_due_;
  return std::min(state_due_, down_since_ + options_.timing.give_up_after);
}

LineActivity PeerLink::Activity(absl::Time now) const {
  LineActivity activity;
  activity.connected = state_ == State::kUp;
  activity.unanswered = static_cast<uint32_t>(unacknowledged_.size());
  if (!unacknowledged_.empty()) {
    activity.oldest_clock = unacknowledged_.front().frame.header.clock;
    activity.oldest_chunk = unacknowledged_.front().frame.header.chunk;
    activity.oldest_age = now - unacknowledged_.front().first;
  }
  if (!activity.connected) {
    activity.down_for = now - down_since_;
    activity.error = std::string(last_loss_.message());
  }
  return activity;
}

}  // namespace strata::worker
