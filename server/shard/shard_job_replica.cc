// The part of ShardJob that keeps two copies of a shard alike.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "server/shard/frames/reply.h"
#include "server/shard/shard_job.h"

namespace strata::server {

using wire::ErrorCode;
using wire::Op;

namespace {

// A server that does not have the job yet does not answer to those who seal its frames.
constexpr absl::Duration kHelloTimeout = absl::Seconds(1);

// The number of the newest change that holds at the clock, from the view's on. All copies of a
// shard have the same nodes at a clock, or those that are told of it do not follow.
uint32_t ChangesBefore(const ShardPlan& plan, uint64_t clock) {
  return plan.views->NumberAt(clock) - plan.view;
}

// Errors: FailedPrecondition: the generation is not above that of now.
absl::Status CheckNewer(const ShardPlan& plan, uint32_t generation) {
  if (generation > plan.generation) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("job %d shard %d is in generation %d, %d is not newer", plan.job.value(),
                      plan.shard.value(), plan.generation, generation));
}

}  // namespace

std::unique_ptr<BackupLine> ShardJob::NewBackupLine(const std::string& address,
                                                    uint32_t generation) const {
  return std::make_unique<BackupLine>(
      BackupLine::Options{.shard = plan_.shard,
                          .address = address,
                          .identity = {.job = plan_.job.value(),
                                       .view = plan_.view,
                                       .generation = generation,
                                       .hello = {.protocol = kProtocolVersion,
                                                 .role = wire::Hello::Role::kPrimary,
                                                 .cluster = plan_.cluster,
                                                 .token = plan_.token,
                                                 .shard = plan_.shard.value()}},
                          .timing = {.hello_timeout = kHelloTimeout}});
}

void ShardJob::Emit(std::vector<ShardAction> made, std::vector<ShardAction>* actions) {
  if (backup_ != nullptr && !stands_still_ && !fill_) {
    backup_->KeepBack(std::move(made));
    return PassOn(actions);
  }
  std::vector<ShardAction> kept_back;
  for (ShardAction& action : made) {
    // Nodes ask again for what they are not told now.
    if (stands_still_ && !TellsNothing(action)) continue;
    const std::optional<size_t> chunk = gate_.IndexOf(ChunkId(action.frame.header.chunk));
    const bool follows = fill_ && (action.frame.header.op == Op::kRetireOk ||
                                   (chunk.has_value() && fill_->IsSaid(*chunk)));
    (follows ? kept_back : *actions).push_back(std::move(action));
  }
  if (backup_ != nullptr) backup_->KeepBack(std::move(kept_back));
  PassOn(actions);
}

wire::Header ShardJob::HeaderOf(Op op, size_t chunk) const {
  wire::Header header;
  header.op = op;
  header.job = plan_.job.value();
  header.view = plan_.view;
  header.chunk = plan_.chunks[chunk].id.value();
  return header;
}

void ShardJob::Fill(BackupLine* line, std::optional<BackupFill>* fill, absl::Time now) {
  if (!*fill) return;
  while (const std::optional<size_t> chunk = (*fill)->next()) {
    if (!line->is_up() || line->bytes() >= plan_.fill_ahead_bytes) return;
    ChunkState& state = *chunks_[*chunk];
    const ChunkCopy copy = state.Copy(plan_.logs_sums);
    for (wire::Frame& part : CopyFrames(copy, HeaderOf(Op::kCopy, *chunk))) {
      Say(line, std::move(part), now);
    }
    // A backup says on what it hears.
    state.sums().Keep(plan_.logs_sums && !is_backup_);
    (*fill)->OnSaid(line->said());
  }
  if ((*fill)->Missing(line->acknowledged()) == 0) fill->reset();
}

void ShardJob::Log(const wire::Frame& frame, absl::Time now) {
  // What is not said of a chunk yet will be in its copy.
  const auto concerns = [&](const std::optional<BackupFill>& fill) {
    return !fill || frame.header.op == Op::kRetire ||
           fill->IsSaid(*gate_.IndexOf(ChunkId(frame.header.chunk)));
  };
  if (backup_ != nullptr && concerns(fill_)) Say(backup_.get(), frame, now);
  if (next_ && concerns(next_->fill)) Say(next_->line.get(), frame, now);
}

void ShardJob::Say(BackupLine* line, wire::Frame change, absl::Time now) {
  change.header.flags &= wire::kFlagEmpty;
  change.header.payload_kind = wire::PayloadKind::kInline;
  change.header.min_clock = static_cast<uint64_t>(absl::ToUnixNanos(now + ahead_));
  line->Log(std::move(change), now);
}

void ShardJob::LogSums(size_t chunk, absl::Time now) {
  for (ClockSum& applied : chunks_[chunk]->sums().Take()) {
    wire::Frame change = {.header = HeaderOf(Op::kApply, chunk)};
    change.header.clock = applied.clock;
    change.header.received = applied.samples;
    change.header.base_version = ChangesBefore(plan_, applied.clock);
    change.header.rate = applied.rate;
    change.header.element_count = static_cast<uint32_t>(applied.sum.float_count());
    if (applied.sum.empty()) change.header.flags = wire::kFlagEmpty;
    change.payload = std::move(applied.sum);
    Log(change, now);
  }
}

void ShardJob::LogGraceIsOver(size_t chunk, absl::Time now) {
  wire::Frame change = {.header = HeaderOf(Op::kApply, chunk)};
  change.header.flags = wire::kFlagEmpty;
  Log(change, now);
}

bool ShardJob::OnConnected(const std::string& address, transport::ConnectionId connection,
                           absl::Time now, std::vector<ShardAction>* actions) {
  BackupLine* const line = LineTo(address);
  if (line == nullptr) return false;
  line->OnConnected(connection, now);
  PassOn(actions);
  return true;
}

void ShardJob::OnConnectFailed(const std::string& address, const absl::Status& why, absl::Time now,
                               std::vector<ShardAction>* actions) {
  BackupLine* const line = LineTo(address);
  if (line == nullptr) return;
  line->OnLost(why, now);
  PassOn(actions);
}

void ShardJob::OnDisconnected(transport::ConnectionId connection, const absl::Status& why,
                              absl::Time now, std::vector<ShardAction>* actions) {
  if (backup_ != nullptr && backup_->Owns(connection)) {
    return OnConnectFailed(plan_.backup, why, now, actions);
  }
  if (next_ && next_->line->Owns(connection)) {
    return OnConnectFailed(next_->address, why, now, actions);
  }
  if (primary_ == connection) return primary_.reset();
  pulls_.Forget(connection);
  connections_.OnDisconnected(connection);
}

std::vector<transport::ConnectionId> ShardJob::Connections() const {
  std::vector<transport::ConnectionId> all = connections_.All();
  if (primary_.has_value()) all.push_back(*primary_);
  if (backup_ != nullptr && backup_->connection().has_value()) {
    all.push_back(*backup_->connection());
  }
  if (next_ && next_->line->connection().has_value()) all.push_back(*next_->line->connection());
  return all;
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
  Confirm(connection, std::move(reply), actions);
  return true;
}

void ShardJob::Confirm(transport::ConnectionId connection, wire::Frame reply,
                       std::vector<ShardAction>* actions) {
  std::vector<ShardAction> confirmed;
  sender_.Send(connection, std::move(reply), &confirmed);
  if (!next_) return actions->push_back(std::move(confirmed.front()));
  // What the primary tells nodes then the next backup has, too.
  next_->line->KeepBack(std::move(confirmed));
  PassOn(actions);
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
  Confirm(connection, std::move(ack), actions);
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
    Log(frame, now);
    Retire(node, now, &nobody_hears);
    return absl::OkStatus();
  }
  if (header.op == Op::kCopy) return FollowCopy(frame, chunk);
  if (Lacks(chunk)) {
    return absl::InvalidArgumentError(absl::StrFormat("chunk %d has not come", header.chunk));
  }
  ChunkState& state = *chunks_[chunk];
  if (header.op == Op::kInit) {
    if (!state.weights().seeded()) state.Seed(frame.payload, wire::PayloadChecksum(frame.payload));
    Log(frame, now);
    return absl::OkStatus();
  }
  if (!state.weights().seeded()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("chunk %d has no first weights", header.chunk));
  }
  if (header.op == Op::kPushPull) return FollowPush(frame, node, chunk, now);
  std::vector<DueAnswer> due;
  if (plan_.logs_sums) {
    if (header.base_version != ChangesBefore(plan_, header.clock)) {
      return absl::FailedPreconditionError(
          absl::StrFormat("clock %d has had %d changes of the job's nodes, here %d", header.clock,
                          header.base_version, ChangesBefore(plan_, header.clock)));
    }
    absl::Status done =
        state.Follow({header.clock, frame.payload, header.received, header.rate}, &due);
    if (!done.ok()) return done;
  } else {
    const absl::Time deadline_before = state.deadline();
    state.OnTime(now + ahead_, &due);
    UpdateDeadline(chunk, deadline_before);
  }
  Log(frame, now);
  SendDue(chunk, due, &nobody_hears);
  return absl::OkStatus();
}

absl::Status ShardJob::FollowCopy(const wire::Frame& frame, size_t chunk) {
  if (!Lacks(chunk)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a copy of chunk %d, which is here", frame.header.chunk));
  }
  const uint64_t bytes_max = plan_.copy_vectors_max * plan_.chunks[chunk].elements * sizeof(float);
  absl::StatusOr<std::optional<ChunkCopy>> copy = collector_.Add(frame, bytes_max);
  if (!copy.ok() || !copy->has_value()) return copy.status();
  const absl::Time deadline_before = chunks_[chunk]->deadline();
  absl::Status taken = chunks_[chunk]->TakeCopy(**copy);
  if (!taken.ok()) return taken;
  UpdateDeadline(chunk, deadline_before);
  JoinAll(chunk);
  lacks_[chunk] = false;
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
  Log(frame, now);
  std::vector<ShardAction> nobody_hears;
  SendDue(chunk, due, &nobody_hears);
  return absl::OkStatus();
}

absl::Status ShardJob::Promote(uint32_t generation, std::vector<ShardAction>* actions) {
  if (!is_backup_) return GoOnAlone(generation, actions);
  if (absl::Status newer = CheckNewer(plan_, generation); !newer.ok()) return newer;
  if (const auto lacking = std::count(lacks_.begin(), lacks_.end(), true); lacking > 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("job %d shard %d: %d of its chunks have not come here", plan_.job.value(),
                        plan_.shard.value(), lacking));
  }
  DropNext(actions);
  is_backup_ = false;
  stands_still_ = plan_.waits_unprotected;
  plan_.backup.clear();
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
  if (absl::Status newer = CheckNewer(plan_, generation); !newer.ok()) return newer;
  if (is_backup_) {
    return absl::FailedPreconditionError(absl::StrFormat("job %d shard %d is a backup here",
                                                         plan_.job.value(), plan_.shard.value()));
  }
  DropNext(actions);
  plan_.generation = generation;
  plan_.backup.clear();
  stands_still_ = plan_.waits_unprotected;
  for (const auto& chunk : chunks_) chunk->sums().Keep(false);
  fill_.reset();
  if (backup_ == nullptr) return absl::OkStatus();
  std::vector<ShardAction> kept_back;
  backup_->GiveUp(&kept_back);
  backup_.reset();
  Emit(std::move(kept_back), actions);
  return absl::OkStatus();
}

absl::Status ShardJob::FillBackup(uint32_t generation, const std::string& address, bool is_whole,
                                  std::vector<ShardAction>* actions) {
  if (backup_ != nullptr && generation == plan_.generation && address == plan_.backup) {
    if (is_whole) stands_still_ = false;
    return absl::OkStatus();
  }
  if (next_ && generation == next_generation_ && address == next_->address) {
    return TakeNext(is_whole, actions);
  }
  // It may hear at once that it is the primary and that it has another backup.
  absl::Status alone = is_backup_ ? Promote(generation, actions) : GoOnAlone(generation, actions);
  if (!alone.ok()) return alone;
  plan_.backup = address;
  backup_ = NewBackupLine(address, generation);
  fill_.emplace(chunks_.size());
  return absl::OkStatus();
}

}  // namespace strata::server
