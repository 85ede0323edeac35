#include "worker/exchange/server/shard_line.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/copies.h"

namespace strata::worker {
namespace {

using wire::Op;

bool Answers(Op answer, Op request) {
  switch (request) {
    case Op::kInit:
      return answer == Op::kInitOk;
    case Op::kPushPull:
      return answer == Op::kAnswer;
    case Op::kCut:
      return answer == Op::kCutAnswer;
    case Op::kRetire:
      return answer == Op::kRetireOk;
    default:
      return false;
  }
}

Bytes CopyOf(const Bytes& bytes) {
  if (bytes.empty()) return bytes;
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.size());
  CopyBytes(CopyReason::kRepeatedPush, copy->data(), bytes.data(), bytes.size());
  return Bytes(copy, copy->data(), copy->size());
}

}  // namespace

ShardLine::ShardLine(LineId line, std::string address, LineIdentity identity, LineTiming timing)
    : line_(line),
      address_(std::move(address)),
      identity_(identity),
      timing_(timing),
      backoff_(timing.backoff_min),
      resend_after_(timing.resend_after) {}

uint64_t ShardLine::KeyOf(const wire::Header& header) {
  const bool retire = header.op == Op::kRetire || header.op == Op::kRetireOk;
  return retire ? kRetireKey : header.chunk;
}

uint64_t ShardLine::bytes_sent(Op op) const {
  auto it = bytes_sent_.find(op);
  return it == bytes_sent_.end() ? 0 : it->second;
}

void ShardLine::Start(absl::Time now, std::vector<WireAction>* actions) {
  down_since_ = now;
  state_ = State::kConnecting;
  state_due_ = absl::InfiniteFuture();
  actions->push_back({.kind = WireAction::Kind::kConnect, .line = line_});
}

void ShardLine::Ask(wire::Header header, Bytes payload, absl::Time now,
                    std::vector<WireAction>* actions) {
  Sign(identity_, &header);
  Request request{.frame = {header, std::move(payload)},
                  .asked = now,
                  .due = now,
                  .backoff = timing_.backoff_min};
  auto it = requests_.insert_or_assign(KeyOf(header), std::move(request)).first;
  if (state_ == State::kUp) Send(&it->second, now, actions);
}

void ShardLine::Send(Request* request, absl::Time now, std::vector<WireAction>* actions) {
  if (request->sent && !request->is_own_copy) {
    // What was lent for the first sending may change as soon as that is answered, while this one
    // still waits in a queue.
    request->frame.payload = CopyOf(request->frame.payload);
    request->is_own_copy = true;
  }
  wire::Frame frame = request->frame;
  if (request->sent) frame.header.flags |= wire::kFlagReplay;
  request->sent = request->awaits_answer = true;
  request->due = now + resend_after_;
  bytes_sent_[frame.header.op] += wire::kHeaderBytes + frame.payload.size();
  actions->push_back({.kind = WireAction::Kind::kSend,
                      .line = line_,
                      .connection = *connection_,
                      .frame = std::move(frame)});
}

void ShardLine::OnConnected(transport::ConnectionId connection, absl::Time now,
                            std::vector<WireAction>* actions) {
  connection_ = connection;
  state_ = State::kGreeting;
  state_due_ = now + timing_.hello_timeout;
  actions->push_back({.kind = WireAction::Kind::kSend,
                      .line = line_,
                      .connection = connection,
                      .frame = HelloOf(identity_)});
}

void ShardLine::PlanReconnect(absl::Time now) {
  if (state_ == State::kUp) {
    down_since_ = now;
    backoff_ = timing_.backoff_min;
  }
  state_ = State::kIdle;
  state_due_ = now + backoff_;
  backoff_ = std::min(backoff_ * 2, timing_.backoff_max);
}

void ShardLine::OnLost(const absl::Status& why, absl::Time now, std::vector<WireAction>* actions) {
  if (!why.ok()) last_loss_ = why;
  Close(actions);
  PlanReconnect(now);
}

void ShardLine::Close(std::vector<WireAction>* actions) {
  if (!connection_) return;
  actions->push_back({.kind = WireAction::Kind::kClose, .line = line_, .connection = *connection_});
  connection_.reset();
}

void ShardLine::OnNotTaken(const wire::Header& header, absl::Time now) {
  auto it = requests_.find(KeyOf(header));
  if (it == requests_.end() || it->second.frame.header.clock != header.clock) return;
  PlanAgain(&it->second, now);
}

// Soon: it is known that the last sending came to nothing.
void ShardLine::PlanAgain(Request* request, absl::Time now) {
  request->awaits_answer = false;
  request->due = now + request->backoff;
  request->backoff = std::min(request->backoff * 2, timing_.backoff_max);
}

void ShardLine::OnRetry(const wire::Header& header, absl::Time now,
                        std::vector<WireAction>* actions) {
  if (state_ == State::kGreeting) {  // the shard does not know the job yet
    Close(actions);
    PlanReconnect(now);
    return;
  }
  auto it = requests_.find(header.chunk);
  if (it == requests_.end() || it->second.frame.header.clock != header.clock) {
    it = requests_.find(kRetireKey);
  }
  if (it == requests_.end()) return;
  PlanAgain(&it->second, now);
}

absl::Status ShardLine::Refusal(const wire::Frame& frame) const {
  const std::string where = absl::StrFormat("server %s refused chunk %d at clock %d: %s", address_,
                                            frame.header.chunk, frame.header.clock, TextOf(frame));
  return frame.header.error == wire::ErrorCode::kNotFinite ? absl::InvalidArgumentError(where)
                                                           : absl::FailedPreconditionError(where);
}

absl::StatusOr<std::optional<wire::Header>> ShardLine::OnFrame(const wire::Frame& frame,
                                                               absl::Time now,
                                                               std::vector<WireAction>* actions) {
  const wire::Header& header = frame.header;
  if (header.op == Op::kError) {
    if (state_ != State::kGreeting) return Refusal(frame);
    return absl::FailedPreconditionError(
        absl::StrCat("server ", address_, " refused the connection: ", TextOf(frame)));
  }
  if (header.op == Op::kRetry) {
    OnRetry(header, now, actions);
    return std::nullopt;
  }
  if (header.op == Op::kHelloOk && state_ == State::kGreeting) {
    state_ = State::kUp;
    state_due_ = down_since_ = absl::InfiniteFuture();
    resend_after_ = timing_.resend_after;
    for (auto& [key, request] : requests_) Send(&request, now, actions);
    return std::nullopt;
  }
  auto it = requests_.find(KeyOf(header));
  if (it == requests_.end()) return std::nullopt;
  const wire::Header asked = it->second.frame.header;
  if (!Answers(header.op, asked.op) || header.clock != asked.clock) return std::nullopt;
  requests_.erase(it);
  return asked;
}

absl::Status ShardLine::OnTime(absl::Time now, std::vector<WireAction>* actions) {
  if (state_ != State::kUp && now >= down_since_ + timing_.give_up_after) {
    return absl::UnavailableError(absl::StrFormat(
        "server %s could not be reached for %s%s", address_,
        absl::FormatDuration(timing_.give_up_after),
        last_loss_.ok() ? "" : absl::StrCat(" (", std::string(last_loss_.message()), ")")));
  }
  if (state_ == State::kIdle && now >= state_due_) {
    state_ = State::kConnecting;
    state_due_ = absl::InfiniteFuture();
    actions->push_back({.kind = WireAction::Kind::kConnect, .line = line_});
  } else if (state_ == State::kGreeting && now >= state_due_) {
    OnLost(absl::DeadlineExceededError("no answer to HELLO"), now, actions);
  } else if (state_ == State::kUp) {
    SendDue(now, actions);
  }
  return absl::OkStatus();
}

void ShardLine::SendDue(absl::Time now, std::vector<WireAction>* actions) {
  const auto is_silent = [now](const auto& entry) {
    const Request& request = entry.second;
    return now >= request.due && request.awaits_answer;
  };
  if (std::any_of(requests_.begin(), requests_.end(), is_silent)) {
    resend_after_ = std::min(resend_after_ * 2, timing_.resend_after * (1 << kResendDoublings));
  }
  for (auto& [key, request] : requests_) {
    if (now >= request.due) Send(&request, now, actions);
  }
}

LineActivity ShardLine::Activity(absl::Time now) const {
  LineActivity activity;
  activity.connected = state_ == State::kUp;
  activity.unanswered = static_cast<uint32_t>(requests_.size());
  absl::Time oldest = absl::InfiniteFuture();
  for (const auto& [key, request] : requests_) {
    if (request.asked >= oldest) continue;
    oldest = request.asked;
    activity.oldest_clock = request.frame.header.clock;
    activity.oldest_chunk = request.frame.header.chunk;
    activity.oldest_age = now - oldest;
  }
  if (!activity.connected) {
    activity.down_for = now - down_since_;
    activity.error = std::string(last_loss_.message());
  }
  return activity;
}

absl::Time ShardLine::deadline() const {
  if (state_ != State::kUp) return std::min(state_due_, down_since_ + timing_.give_up_after);
  absl::Time due = absl::InfiniteFuture();
  for (const auto& [key, request] : requests_) due = std::min(due, request.due);
  return due;
}

}  // namespace strata::worker
