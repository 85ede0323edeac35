#include "server/shard/backup_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/require.h"

namespace strata::server {

using wire::Op;

bool TellsNothing(const ShardAction& action) {
  const Op op = action.frame.header.op;
  return action.kind != ShardAction::Kind::kSend || op == Op::kError || op == Op::kRetry;
}

BackupLine::BackupLine(Options options)
    : options_(std::move(options)),
      connection_(LinkId(0), options_.timing, Reconnector::Role::kConnects,
                  absl::StrCat("backup ", options_.address, " could not be reached")),
      resend_after_(options_.timing.resend_after) {
  // The coordinator decides whether the job continues without it.
  connection_.NeverGiveUp();
}

void BackupLine::Log(wire::Frame frame, absl::Time now) {
  STRATA_REQUIRE(wire::IsLogged(frame.header.op));
  frame.header.sequence = ++said_;
  frame.header.generation = options_.identity.generation;
  frame.by_reference = false;
  frame.writable = nullptr;
  frame.seal.reset();
  bytes_ += wire::kHeaderBytes + frame.payload.size();
  unacknowledged_.push_back({std::move(frame), now});
  if (!refusal_.ok() || !connection_.is_up()) return;
  if (say_again_at_ == absl::InfiniteFuture()) say_again_at_ = now + resend_after_;
  Transmit(unacknowledged_.back());
}

void BackupLine::KeepBack(std::vector<ShardAction> made) {
  const bool has_all = unacknowledged_.empty() && refusal_.ok();
  for (ShardAction& action : made) {
    if (TellsNothing(action) || has_all) {
      out_.push_back(std::move(action));
    } else {
      kept_back_.emplace_back(said_, std::move(action));
    }
  }
}

void BackupLine::Transmit(const Said& said) {
  wire_.push_back({.kind = WireAction::Kind::kSend,
                   .connection = connection_.connection(),
                   .frame = said.frame});
}

void BackupLine::SayAgain(absl::Time now) {
  for (const Said& said : unacknowledged_) Transmit(said);
  say_again_at_ = unacknowledged_.empty() ? absl::InfiniteFuture() : now + resend_after_;
}

void BackupLine::Acknowledge(uint64_t received, absl::Time now) {
  if (received > said_ || received <= acknowledged()) return;
  while (acknowledged() < received) {
    bytes_ -= wire::kHeaderBytes + unacknowledged_.front().frame.payload.size();
    unacknowledged_.pop_front();
  }
  resend_after_ = options_.timing.resend_after;
  say_again_at_ = unacknowledged_.empty() ? absl::InfiniteFuture() : now + resend_after_;
  while (!kept_back_.empty() && kept_back_.front().first <= received) {
    out_.push_back(std::move(kept_back_.front().second));
    kept_back_.pop_front();
  }
}

void BackupLine::OnConnected(transport::ConnectionId connection, absl::Time now) {
  connection_.OnConnected(connection, now);
  wire_.push_back({.kind = WireAction::Kind::kSend,
                   .connection = connection,
                   .frame = MakeHello(options_.identity)});
}

void BackupLine::OnLost(const absl::Status& why, absl::Time now) {
  say_again_at_ = absl::InfiniteFuture();
  connection_.OnLost(why, now, &wire_);
}

void BackupLine::OnFrame(const wire::Frame& frame, absl::Time now) {
  const wire::Header& header = frame.header;
  switch (header.op) {
    case Op::kHelloOk:
      if (!connection_.is_greeting()) return;
      connection_.OnGreeted(&wire_);
      Acknowledge(header.received, now);
      return SayAgain(now);
    case Op::kAck:
      if (connection_.is_up()) Acknowledge(header.received, now);
      return;
    case Op::kRetry:  // it does not know the generation yet
      return OnLost(absl::OkStatus(), now);
    case Op::kError:
      if (!refusal_.ok()) return;
      // It does not have the job yet.
      if (header.error == wire::ErrorCode::kWrongJob) return OnLost(absl::OkStatus(), now);
      refusal_ = absl::FailedPreconditionError(
          absl::StrCat("backup ", options_.address, " refused: ", RefusalText(frame)));
      say_again_at_ = absl::InfiniteFuture();
      return connection_.Close(&wire_);
    default:
      return;
  }
}

void BackupLine::OnTime(absl::Time now) {
  if (!refusal_.ok()) return;
  if (!std::exchange(is_started_, true)) return connection_.Start(now, &wire_);
  // It never gives up.
  connection_.OnTime(now, &wire_).IgnoreError();
  if (!connection_.is_up() || now < say_again_at_) return;
  resend_after_ =
      std::min(resend_after_ * 2, options_.timing.resend_after * (1 << kResendDoublings));
  SayAgain(now);
}

absl::Time BackupLine::deadline() const {
  if (!refusal_.ok()) return absl::InfiniteFuture();
  if (!is_started_) return absl::InfinitePast();
  return connection_.is_up() ? say_again_at_ : connection_.deadline();
}

absl::Time BackupLine::waits_since() const {
  return unacknowledged_.empty() ? absl::InfiniteFuture() : unacknowledged_.front().at;
}

void BackupLine::TakeActions(std::vector<ShardAction>* actions) {
  for (WireAction& action : wire_) {
    switch (action.kind) {
      case WireAction::Kind::kConnect:
        actions->push_back({.kind = ShardAction::Kind::kConnect,
                            .address = options_.address,
                            .job = JobId(options_.identity.job),
                            .shard = options_.shard});
        break;
      case WireAction::Kind::kClose:
        actions->push_back({.kind = ShardAction::Kind::kClose, .connection = action.connection});
        break;
      case WireAction::Kind::kSend:
        actions->push_back({.kind = ShardAction::Kind::kSend,
                            .connection = action.connection,
                            .frame = std::move(action.frame)});
        break;
      case WireAction::Kind::kAdmit:  // all its messages are small
        break;
    }
  }
  wire_.clear();
  TakeReleased(actions);
}

void BackupLine::TakeReleased(std::vector<ShardAction>* actions) {
  std::move(out_.begin(), out_.end(), std::back_inserter(*actions));
  out_.clear();
}

void BackupLine::GiveUp(std::vector<ShardAction>* actions) {
  connection_.Close(&wire_);
  for (auto& [change, action] : kept_back_) out_.push_back(std::move(action));
  kept_back_.clear();
  TakeActions(actions);
}

}  // namespace strata::server
