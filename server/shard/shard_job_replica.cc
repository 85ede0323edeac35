// The part of ShardJob that keeps two copies of a shard alike.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/shard/frames/reply.h"
#include "server/shard/shard_job.h"

namespace strata::server {

using wire::ErrorCode;
using wire::Op;

void ShardJob::Emit(std::vector<ShardAction> made, std::vector<ShardAction>* actions) {
  if (backup_ == nullptr) {
    std::move(made.begin(), made.end(), std::back_inserter(*actions));
    return;
  }
  backup_->KeepBack(std::move(made));
  backup_->TakeActions(actions);
}

void ShardJob::Log(const wire::Frame& frame, absl::Time now) {
  if (backup_ == nullptr) return;
  wire::Frame change = frame;
  change.header.flags &= wire::kFlagEmpty;
  change.header.payload_kind = wire::PayloadKind::kInline;
  change.header.min_clock = static_cast<uint64_t>(absl::ToUnixNanos(now + ahead_));
  backup_->Log(std::move(change), now);
}

void ShardJob::LogSums(size_t chunk, absl::Time now) {
  for (ClockSum& applied : chunks_[chunk]->sums().Take()) {
    wire::Frame change;
    change.header.op = Op::kApply;
    change.header.job = plan_.job.value();
    change.header.view = plan_.view;
    change.header.chunk = plan_.chunks[chunk].id.value();
    change.header.clock = applied.clock;
    change.header.received = applied.samples;
    change.header.rate = applied.rate;
    change.header.element_count = static_cast<uint32_t>(applied.sum.float_count());
    if (applied.sum.empty()) change.header.flags = wire::kFlagEmpty;
    change.payload = std::move(applied.sum);
    Log(change, now);
  }
}

void ShardJob::LogGraceIsOver(size_t chunk, absl::Time now) {
  if (backup_ == nullptr) return;
  wire::Frame change;
  change.header.op = Op::kApply;
  change.header.flags = wire::kFlagEmpty;
  change.header.job = plan_.job.value();
  change.header.view = plan_.view;
  change.header.chunk = plan_.chunks[chunk].id.value();
  Log(change, now);
}

bool ShardJob::OnConnected(transport::ConnectionId connection, absl::Time now,
                           std::vector<ShardAction>* actions) {
  if (backup_ == nullptr) return false;
  backup_->OnConnected(connection, now);
  backup_->TakeActions(actions);
  return true;
}

void ShardJob::OnConnectFailed(const absl::Status& why, absl::Time now,
                               std::vector<ShardAction>* actions) {
  if (backup_ == nullptr) return;
  backup_->OnLost(why, now);
  backup_->TakeActions(actions);
}

void ShardJob::OnDisconnected(transport::ConnectionId connection, const absl::Status& why,
                              absl::Time now, std::vector<ShardAction>* actions) {
  if (backup_ != nullptr && backup_->Owns(connection)) return OnConnectFailed(why, now, actions);
  if (primary_ == connection) return primary_.reset();
  connections_.OnDisconnected(connection);
}

std::vector<transport::ConnectionId> ShardJob::Connections() const {
  std::vector<transport::ConnectionId> all = connections_.All();
  if (primary_.has_value()) all.push_back(*primary_);
  if (backup_ != nullptr && backup_->connection().has_value()) {
    all.push_back(*backup_->connection());
  }
  return all;
}

std::optional<BackupState> ShardJob::backup_state() const {
  if (backup_ == nullptr) return std::nullopt;
  return BackupState{.job = plan_.job,
                     .shard = plan_.shard,
                     .generation = plan_.generation,
                     .waits_since = backup_->waits_since(),
                     .refusal = backup_->refusal()};
}

bool ShardJob::OnPrimaryHello(transport::ConnectionId connection, const wire::Frame& frame,
                              const wire::Hello& hello, std::vector<ShardAction>* actions) {
  std::optional<FrameFault> fault = gate_.CheckPrimary(frame.header, hello);
  if (!fault && !is_backup_) fault = FrameFault{ErrorCode::kWrongRole, "this is no backup"};
  if (!fault && connections_.Find(connection) != nullptr) {
    fault = FrameFault{ErrorCode::kNoHello, "bound to a node"};
  }
  if (fault) {
    Reject(connection, frame, *fault, actions);
    return false;
  }
  if (primary_.has_value() && primary_ != connection) {
    actions->push_back({.kind = ShardAction::Kind::kClose, .connection = *primary_});
  }
  primary_ = connection;
  wire::Frame reply = Reply(frame.header, Op::kHelloOk);
  reply.header.received = followed_;
  sender_.Send(connection, std::move(reply), actions);
  return true;
}

void ShardJob::OnPrimaryFrame(transport::ConnectionId connection, const wire::Frame& frame,
                              absl::Time now, std::vector<ShardAction>* actions) {
  // Where one before this one was lost, both come again.
  if (frame.header.sequence == followed_ + 1) {
    if (absl::Status done = Follow(frame, now); !done.ok()) {
      return Refuse(connection, frame, ErrorCode::kConflict, std::string(done.message()), actions);
    }
    ++followed_;
  }
  wire::Frame ack = Reply(frame.header, Op::kAck);
  ack.header.received = followed_;
  sender_.Send(connection, std::move(ack), actions);
}

absl::Status ShardJob::Follow(const wire::Frame& frame, absl::Time now) {
  const wire::Header& header = frame.header;
  size_t node = 0, chunk = 0;
  if (std::optional<FrameFault> fault = gate_.CheckChange(frame, &node, &chunk)) {
    return absl::InvalidArgumentError(fault->reason);
  }
  ahead_ = absl::FromUnixNanos(static_cast<int64_t>(header.min_clock)) - now;
  std::vector<ShardAction> nobody_hears;
  if (header.op == Op::kRetire) {
    Retire(node, now, &nobody_hears);
    return absl::OkStatus();
  }
  ChunkState& state = *chunks_[chunk];
  if (header.op == Op::kInit) {
    if (!state.weights().seeded()) state.Seed(frame.payload, wire::PayloadChecksum(frame.payload));
    return absl::OkStatus();
  }
  if (!state.weights().seeded()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("chunk %d has no first weights", header.chunk));
  }
  if (header.op == Op::kPushPull) return FollowPush(frame, node, chunk, now);
  std::vector<DueAnswer> due;
  if (plan_.logs_sums) {
    absl::Status done =
        state.Follow({header.clock, frame.payload, header.received, header.rate}, &due);
    if (!done.ok()) return done;
  } else {
    const absl::Time deadline_before = state.deadline();
    state.OnTime(now + ahead_, &due);
    UpdateDeadline(chunk, deadline_before);
  }
  SendDue(chunk, due, &nobody_hears);
  return absl::OkStatus();
}

absl::Status ShardJob::FollowPush(const wire::Frame& frame, size_t node, size_t chunk,
                                  absl::Time now) {
  ChunkState& state = *chunks_[chunk];
  const absl::Time deadline_before = state.deadline();
  std::vector<DueAnswer> due;
  const PushResult result = state.OnPush(PushOf(frame, node, now + ahead_), &due);
  UpdateDeadline(chunk, deadline_before);
  if (result.error != ErrorCode::kNone) {
    return absl::InvalidArgumentError(PushReason(frame.header, result.reason));
  }
  std::vector<ShardAction> nobody_hears;
  SendDue(chunk, due, &nobody_hears);
  return absl::OkStatus();
}

absl::Status ShardJob::CheckNewer(uint32_t generation) const {
  if (generation > plan_.generation) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("job %d shard %d is in generation %d, %d is not newer", plan_.job.value(),
                      plan_.shard.value(), plan_.generation, generation));
}

absl::Status ShardJob::Promote(uint32_t generation, std::vector<ShardAction>* actions) {
  if (!is_backup_) return GoOnAlone(generation, actions);
  if (absl::Status newer = CheckNewer(generation); !newer.ok()) return newer;
  is_backup_ = false;
  plan_.generation = generation;
  plan_.heard_from = generation;
  if (primary_.has_value()) {
    actions->push_back({.kind = ShardAction::Kind::kClose, .connection = *primary_});
    primary_.reset();
  }
  // The image of a clock is whole or not at all: what was cut before was the primary's.
  for (const auto& chunk : chunks_) cut_floor_ = std::max(cut_floor_, chunk->last_cut());
  return absl::OkStatus();
}

absl::Status ShardJob::GoOnAlone(uint32_t generation, std::vector<ShardAction>* actions) {
  if (backup_ == nullptr && !is_backup_ && generation == plan_.generation) return absl::OkStatus();
  if (absl::Status newer = CheckNewer(generation); !newer.ok()) return newer;
  if (is_backup_) {
    return absl::FailedPreconditionError(absl::StrFormat("job %d shard %d is a backup here",
                                                         plan_.job.value(), plan_.shard.value()));
  }
  plan_.generation = generation;
  for (const auto& chunk : chunks_) chunk->sums().Keep(false);
  if (backup_ == nullptr) return absl::OkStatus();
  backup_->GiveUp(actions);
  backup_.reset();
  return absl::OkStatus();
}

}  // namespace strata::server
