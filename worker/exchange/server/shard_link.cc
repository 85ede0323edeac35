#include "worker/exchange/server/shard_link.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "common/diverged.h"

namespace strata::worker {
namespace {

using wire::Op;

bool Answers(Op answer, Op request) {
  switch (request) {
    case Op::kInit:
      return answer == Op::kInitOk || answer == Op::kFirst;
    case Op::kPushPull:
      return answer == Op::kAnswer;
    case Op::kPull:
      return answer == Op::kPulled;
    case Op::kCut:
      return answer == Op::kCutAnswer;
    case Op::kRetire:
      return answer == Op::kRetireOk;
    case Op::kLookup:
      return answer == Op::kRows;
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

ShardLink::ShardLink(LinkId link, std::string address, LinkIdentity identity, LinkTiming timing,
                     bool may_move)
    : link_(link),
      address_(std::move(address)),
      identity_(identity),
      timing_(timing),
      may_move_(may_move),
      connection_(MakeConnection()),
      resend_after_(timing.resend_after) {}

Reconnector ShardLink::MakeConnection() const {
  return Reconnector(link_, timing_, Reconnector::Role::kConnects,
                     absl::StrCat("server ", address_, " could not be reached"));
}

void ShardLink::Move(const std::string& address, uint32_t generation, absl::Time now,
                     WireActions* actions) {
  if (generation <= identity_.generation) return;
  identity_.generation = generation;
  for (auto& [key, request] : requests_) SignHeader(identity_, &request.frame.header);
  if (address == address_) return;
  address_ = address;
  connection_.Close(actions);
  connection_ = MakeConnection();
  connection_.Start(now, actions);
}

uint64_t ShardLink::RequestKey(const wire::Header& header) {
  if (header.op == Op::kRetire || header.op == Op::kRetireOk) return kRetireKey;
  return header.op == Op::kLookup || header.op == Op::kRows ? header.clock : header.chunk;
}

uint64_t ShardLink::bytes_sent(Op op) const {
  auto it = bytes_sent_.find(op);
  return it == bytes_sent_.end() ? 0 : it->second;
}

void ShardLink::Ask(wire::Header header, Bytes payload, absl::Time now, WireActions* actions) {
  SignHeader(identity_, &header);
  Request request{.frame = {header, std::move(payload)},
                  .asked = now,
                  .due = now,
                  .backoff = timing_.backoff_min};
  const auto it = requests_.insert_or_assign(RequestKey(header), std::move(request)).first;
  if (connection_.is_up()) Send(&it->second, now, actions);
}

void ShardLink::Send(Request* request, absl::Time now, WireActions* actions) {
  if (request->sent && !request->is_own_copy) {
    // The payload lent for the first sending may change as soon as that is answered, while this
    // frame still waits in a queue.
    request->frame.payload = CopyOf(request->frame.payload);
    request->is_own_copy = true;
  }
  wire::Frame frame = request->frame;
  if (request->sent) frame.header.flags |= wire::kFlagReplay;
  request->sent = request->awaits_answer = true;
  request->due = now + resend_after_;
  bytes_sent_[frame.header.op] += wire::kHeaderBytes + frame.payload.size();
  actions->push_back({.kind = WireAction::Kind::kSend,
                      .link = link_,
                      .connection = connection_.connection(),
                      .frame = std::move(frame)});
}

void ShardLink::OnConnected(transport::ConnectionId connection, absl::Time now,
                            WireActions* actions) {
  connection_.OnConnected(connection, now);
  actions->push_back({.kind = WireAction::Kind::kSend,
                      .link = link_,
                      .connection = connection,
                      .frame = MakeHello(identity_)});
}

void ShardLink::OnSendQueueFull(const wire::Header& header, absl::Time now) {
  auto it = requests_.find(RequestKey(header));
  if (it == requests_.end() || it->second.frame.header.clock != header.clock) return;
  PlanAgain(&it->second, now);
}

// Soon, because the last sending is known to have failed.
void ShardLink::PlanAgain(Request* request, absl::Time now) {
  request->awaits_answer = false;
  request->due = now + request->backoff;
  request->backoff = std::min(request->backoff * 2, timing_.backoff_max);
}

void ShardLink::OnRetry(const wire::Header& header, absl::Time now, WireActions* actions) {
  if (connection_.is_greeting()) {  // the shard does not know the job yet
    return connection_.OnLost(absl::OkStatus(), now, actions);
  }
  const auto it = FindRetried(header);
  if (it == requests_.end()) return;
  PlanAgain(&it->second, now);
}

ShardLink::Requests::iterator ShardLink::FindRetried(const wire::Header& retry) {
  const bool is_lookup = retry.key_space == wire::KeySpace::kRows && retry.clock >= kLookups;
  const auto it = requests_.find(is_lookup ? retry.clock : retry.chunk);
  if (it != requests_.end() && it->second.frame.header.clock == retry.clock) return it;
  return requests_.find(kRetireKey);
}

absl::Status ShardLink::Refusal(const wire::Frame& frame) const {
  const bool is_of_rows = frame.header.key_space == wire::KeySpace::kRows;
  const std::string what =
      is_of_rows && frame.header.clock >= kLookups
          ? "a lookup"
          : absl::StrFormat("%s %d at clock %d", is_of_rows ? "bucket" : "chunk",
                            frame.header.chunk, frame.header.clock);
  const std::string where =
      absl::StrFormat("server %s refused %s: %s", address_, what, RefusalText(frame));
  return frame.header.error == wire::ErrorCode::kNotFinite ? DivergedError(where)
                                                           : absl::FailedPreconditionError(where);
}

absl::StatusOr<std::optional<wire::Header>> ShardLink::OnFrame(const wire::Frame& frame,
                                                               absl::Time now,
                                                               WireActions* actions) {
  const wire::Header& header = frame.header;
  if (header.op == Op::kError) {
    if (!connection_.is_greeting()) return Refusal(frame);
    const absl::Status refused = absl::FailedPreconditionError(
        absl::StrCat("server ", address_, " refused the connection: ", RefusalText(frame)));
    if (!may_move_ || header.error != wire::ErrorCode::kWrongJob) return refused;
    connection_.OnLost(refused, now, actions);
    return std::nullopt;
  }
  if (header.op == Op::kRetry) {
    OnRetry(header, now, actions);
    return std::nullopt;
  }
  if (header.op == Op::kHelloOk && connection_.is_greeting()) {
    connection_.OnGreeted(actions);
    resend_after_ = timing_.resend_after;
    for (auto& [key, request] : requests_) Send(&request, now, actions);
    return std::nullopt;
  }
  auto it = requests_.find(RequestKey(header));
  if (it == requests_.end()) return std::nullopt;
  const wire::Header asked = it->second.frame.header;
  if (!Answers(header.op, asked.op) || header.clock != asked.clock) return std::nullopt;
  requests_.erase(it);
  return asked;
}

absl::Status ShardLink::OnTime(absl::Time now, WireActions* actions) {
  const bool was_up = connection_.is_up();
  if (absl::Status status = connection_.OnTime(now, actions); !status.ok()) return status;
  if (was_up) SendDue(now, actions);
  return absl::OkStatus();
}

void ShardLink::SendDue(absl::Time now, WireActions* actions) {
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

LinkActivity ShardLink::Activity(absl::Time now) const {
  LinkActivity activity;
  connection_.Describe(now, &activity);
  activity.unanswered = static_cast<uint32_t>(requests_.size());
  absl::Time oldest = absl::InfiniteFuture();
  for (const auto& [key, request] : requests_) {
    if (request.asked >= oldest) continue;
    oldest = request.asked;
    activity.oldest_clock = request.frame.header.clock;
    activity.oldest_chunk = request.frame.header.chunk;
    activity.oldest_age = now - oldest;
  }
  return activity;
}

absl::Time ShardLink::deadline() const {
  absl::Time due = connection_.deadline();
  if (!connection_.is_up()) return due;
  for (const auto& [key, request] : requests_) due = std::min(due, request.due);
  return due;
}

}  // namespace strata::worker
