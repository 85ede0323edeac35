#include "common/transport/link.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/require.h"

namespace strata {

std::string RefusalText(const wire::Frame& refusal) {
  if (refusal.payload.empty()) return wire::ToString(refusal.header.error);
  return {reinterpret_cast<const char*>(refusal.payload.data()), refusal.payload.size()};
}

void LinkActivity::Add(const LinkActivity& other) {
  unanswered += other.unanswered;
  if (other.oldest_age > oldest_age) {
    oldest_clock = other.oldest_clock;
    oldest_chunk = other.oldest_chunk;
    oldest_age = other.oldest_age;
  }
  connected = connected && other.connected;
  if (other.down_for <= down_for) return;
  down_for = other.down_for;
  error = other.error;
}

void SignHeader(const LinkIdentity& identity, wire::Header* header) {
  header->job = identity.job;
  header->view = identity.view;
  header->generation = identity.generation;
  header->node = identity.node;
  header->incarnation = identity.incarnation;
}

wire::Header MakeHeader(const LinkIdentity& identity, wire::Op op) {
  wire::Header header;
  header.op = op;
  SignHeader(identity, &header);
  return header;
}

wire::Frame MakeHello(const LinkIdentity& identity) {
  auto bytes =
      std::make_shared<std::array<std::byte, wire::kHelloBytes>>(wire::EncodeHello(identity.hello));
  wire::Frame frame{MakeHeader(identity, wire::Op::kHello),
                    Bytes(bytes, bytes->data(), bytes->size())};
  return frame;
}

wire::ErrorCode CheckPeerHello(const LinkIdentity& self, const wire::Frame& frame,
                               uint32_t* connection) {
  const wire::Header& header = frame.header;
  wire::Hello hello;
  const absl::Span<const std::byte> payload(frame.payload.data(), frame.payload.size());
  if (header.op != wire::Op::kHello || !wire::DecodeHello(payload, &hello).ok()) {
    return wire::ErrorCode::kNoHello;
  }
  *connection = hello.connection;
  if (hello.protocol != self.hello.protocol) return wire::ErrorCode::kWrongVersion;
  if (hello.role != self.hello.role) return wire::ErrorCode::kWrongRole;
  if (header.job != self.job || hello.cluster != self.hello.cluster ||
      hello.token != self.hello.token) {
    return wire::ErrorCode::kWrongJob;
  }
  if (header.view != self.view) return wire::ErrorCode::kWrongView;
  if (header.generation != self.generation) return wire::ErrorCode::kWrongGeneration;
  if (header.incarnation != self.incarnation) return wire::ErrorCode::kFenced;
  return wire::ErrorCode::kNone;
}

wire::Frame MakeRefusal(const LinkIdentity& self, wire::Op op, wire::ErrorCode error) {
  wire::Frame frame{MakeHeader(self, op), Bytes()};
  frame.header.error = error;
  return frame;
}

void Reconnector::Connect(WireActions* actions) {
  state_ = State::kConnecting;
  state_due_ = absl::InfiniteFuture();
  actions->push_back({.kind = WireAction::Kind::kConnect, .link = link_});
}

void Reconnector::Start(absl::Time now, WireActions* actions) {
  STRATA_REQUIRE(state_ == State::kIdle && down_since_ == absl::InfiniteFuture());
  down_since_ = now;
  if (role_ == Role::kConnects) Connect(actions);
}

void Reconnector::OnConnected(transport::ConnectionId connection, absl::Time now) {
  connection_ = connection;
  state_ = State::kGreeting;
  state_due_ = now + timing_.hello_timeout;
}

void Reconnector::OnGreeted(WireActions* actions) {
  STRATA_REQUIRE(connection_.has_value());
  actions->push_back({.kind = WireAction::Kind::kAdmit, .link = link_, .connection = *connection_});
  state_ = State::kUp;
  state_due_ = down_since_ = absl::InfiniteFuture();
}

void Reconnector::Adopt(transport::ConnectionId connection, WireActions* actions) {
  if (connection_ != connection) Close(actions);
  connection_ = connection;
}

void Reconnector::OnLost(const absl::Status& why, absl::Time now, WireActions* actions) {
  if (!why.ok()) last_loss_ = why;
  Close(actions);
  if (state_ == State::kUp) {
    down_since_ = now;
    backoff_ = timing_.backoff_min;
  }
  state_ = State::kIdle;
  if (role_ != Role::kConnects) return;
  state_due_ = now + backoff_;
  backoff_ = std::min(backoff_ * 2, timing_.backoff_max);
}

void Reconnector::Close(WireActions* actions) {
  if (!connection_) return;
  actions->push_back({.kind = WireAction::Kind::kClose, .link = link_, .connection = *connection_});
  connection_.reset();
}

absl::Status Reconnector::OnTime(absl::Time now, WireActions* actions) {
  if (gives_up_ && !is_up() && now >= down_since_ + timing_.give_up_after) {
    const std::string cause =
        last_loss_.ok() ? "" : absl::StrCat(" (", std::string(last_loss_.message()), ")");
    return absl::UnavailableError(
        absl::StrCat(unreachable_, " for ", absl::FormatDuration(timing_.give_up_after), cause));
  }
  if (state_ == State::kIdle && now >= state_due_) {
    Connect(actions);
  } else if (state_ == State::kGreeting && now >= state_due_) {
    OnLost(absl::DeadlineExceededError("no answer to HELLO"), now, actions);
  }
  return absl::OkStatus();
}

absl::Time Reconnector::deadline() const {
  if (is_up()) return absl::InfiniteFuture();
  return gives_up_ ? std::min(state_due_, down_since_ + timing_.give_up_after) : state_due_;
}

transport::ConnectionId Reconnector::connection() const {
  STRATA_REQUIRE(connection_.has_value());
  return *connection_;
}

void Reconnector::Describe(absl::Time now, LinkActivity* activity) const {
  activity->connected = is_up();
  if (is_up()) return;
  STRATA_REQUIRE(down_since_ != absl::InfiniteFuture());
  activity->down_for = now - down_since_;
  activity->error = std::string(last_loss_.message());
}

}  // namespace strata
