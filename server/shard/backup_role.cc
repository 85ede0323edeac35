#include "server/shard/backup_role.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "common/require.h"
#include "server/shard/shard_action.h"

namespace strata::server {

using wire::ErrorCode;
using wire::Op;

BackupRole::BackupRole(const ShardPlan& plan, const FrameGate& gate, AnswerSender* sender,
                       ShardChunks* chunks, NextBackup* next, bool is_empty)
    : plan_(plan),
      gate_(gate),
      sender_(*sender),
      chunks_(*chunks),
      next_(*next),
      lacks_(chunks->size(), is_empty) {}

void BackupRole::OnHello(transport::ConnectionId connection, const wire::Frame& frame,
                         std::vector<ShardAction>* actions) {
  if (primary_ != connection) ClosePrimary(actions);
  primary_ = connection;
  wire::Frame reply = Reply(frame.header, Op::kHelloOk);
  reply.header.received = followed_;
  Confirm(connection, std::move(reply), actions);
}

void BackupRole::OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
                         absl::Time now, std::vector<ShardAction>* actions) {
  STRATA_REQUIRE(primary_ == connection);
  // If an earlier change was lost, both come again.
  if (frame.header.sequence == followed_ + 1) {
    if (absl::Status done = Follow(frame, now); !done.ok()) {
      return sender_.Refuse(connection, frame, ErrorCode::kConflict, std::string(done.message()),
                            actions);
    }
    ++followed_;
  }
  wire::Frame ack = Reply(frame.header, Op::kAck);
  ack.header.received = followed_;
  Confirm(connection, std::move(ack), actions);
}

void BackupRole::OnDisconnected(transport::ConnectionId connection) {
  if (primary_ == connection) primary_.reset();
}

void BackupRole::ClosePrimary(std::vector<ShardAction>* actions) {
  if (!primary_) return;
  actions->push_back({.kind = ShardAction::Kind::kClose, .connection = *primary_});
  primary_.reset();
}

void BackupRole::PassOn(std::vector<ShardAction>* actions) {
  if (next_.copy) next_.copy->line().TakeActions(actions);
}

size_t BackupRole::chunks_missing() const {
  return static_cast<size_t>(std::count(lacks_.begin(), lacks_.end(), true));
}

void BackupRole::Confirm(transport::ConnectionId connection, wire::Frame reply,
                         std::vector<ShardAction>* actions) {
  std::vector<ShardAction> confirmed;
  sender_.Send(connection, std::move(reply), &confirmed);
  if (!next_.copy) return actions->push_back(std::move(confirmed.front()));
  // So the next backup has everything that the primary tells nodes.
  next_.copy->line().KeepBack(std::move(confirmed));
  PassOn(actions);
}

void BackupRole::Log(const wire::Frame& change, std::optional<size_t> chunk, absl::Time now) {
  if (next_.copy) next_.copy->Log(change, chunk, chunks_.TimeAt(now), now);
}

absl::Status BackupRole::Follow(const wire::Frame& frame, absl::Time now) {
  const wire::Header& header = frame.header;
  size_t node = 0, chunk = 0;
  if (std::optional<FrameFault> fault = gate_.CheckChange(frame, &node, &chunk)) {
    return absl::InvalidArgumentError(fault->reason);
  }
  chunks_.SetTime(absl::FromUnixNanos(static_cast<int64_t>(header.min_clock)), now);
  if (header.op == Op::kRetire) return FollowRetire(frame, node, now);
  if (header.op == Op::kCopy) return FollowCopy(frame, chunk);
  if (lacks_[chunk]) {
    return absl::InvalidArgumentError(absl::StrFormat("chunk %d has not come", header.chunk));
  }
  if (header.op == Op::kInit) return FollowInit(frame, chunk, now);
  if (!chunks_[chunk].weights().seeded()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("chunk %d has no first weights", header.chunk));
  }
  if (header.op == Op::kPushPull) return FollowPush(frame, node, chunk, now);
  return FollowApply(frame, chunk, now);
}

absl::Status BackupRole::FollowRetire(const wire::Frame& frame, size_t node, absl::Time now) {
  Log(frame, std::nullopt, now);
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (lacks_[chunk]) continue;
    std::vector<DueAnswer> due;
    chunks_.Change(chunk,
                   [&](ChunkState& state) { state.OnRetire(node, chunks_.TimeAt(now), &due); });
    DropDue(chunk, due);
  }
  return absl::OkStatus();
}

absl::Status BackupRole::FollowInit(const wire::Frame& frame, size_t chunk, absl::Time now) {
  ChunkState& state = chunks_[chunk];
  if (!state.weights().seeded()) state.Seed(frame.payload, wire::PayloadChecksum(frame.payload));
  Log(frame, chunk, now);
  return absl::OkStatus();
}

absl::Status BackupRole::FollowPush(const wire::Frame& frame, size_t node, size_t chunk,
                                    absl::Time now) {
  std::vector<DueAnswer> due;
  PushResult result;
  chunks_.Change(chunk, [&](ChunkState& state) {
    result = state.OnPush(PushOf(frame, node, chunks_.TimeAt(now)), &due);
  });
  if (result.error != ErrorCode::kNone) {
    return absl::InvalidArgumentError(PushReason(frame.header, result.reason));
  }
  Log(frame, chunk, now);
  DropDue(chunk, due);
  return absl::OkStatus();
}

absl::Status BackupRole::FollowApply(const wire::Frame& frame, size_t chunk, absl::Time now) {
  const wire::Header& header = frame.header;
  std::vector<DueAnswer> due;
  if (plan_.logs_sums) {
    if (header.base_version != ChangesBefore(plan_, header.clock)) {
      return absl::FailedPreconditionError(
          absl::StrFormat("clock %d has had %d changes of the job's nodes, here %d", header.clock,
                          header.base_version, ChangesBefore(plan_, header.clock)));
    }
    absl::Status done =
        chunks_[chunk].Follow({header.clock, frame.payload, header.received, header.rate}, &due);
    if (!done.ok()) return done;
  } else {
    chunks_.Change(chunk, [&](ChunkState& state) { state.OnTime(chunks_.TimeAt(now), &due); });
  }
  Log(frame, chunk, now);
  DropDue(chunk, due);
  return absl::OkStatus();
}

absl::Status BackupRole::FollowCopy(const wire::Frame& frame, size_t chunk) {
  if (!lacks_[chunk]) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a copy of chunk %d, which is here", frame.header.chunk));
  }
  const uint64_t bytes_max = plan_.copy_vectors_max * plan_.chunks[chunk].elements * sizeof(float);
  absl::StatusOr<std::optional<ChunkCopy>> copy = collector_.Add(frame, bytes_max);
  if (!copy.ok() || !copy->has_value()) return copy.status();
  absl::Status taken;
  chunks_.Change(chunk, [&](ChunkState& state) { taken = state.TakeCopy(**copy); });
  if (!taken.ok()) return taken;
  chunks_.JoinAll(chunk);
  lacks_[chunk] = false;
  return absl::OkStatus();
}

void BackupRole::DropDue(size_t chunk, const std::vector<DueAnswer>& due) {
  std::vector<ShardAction> nobody_hears;
  sender_.SendDue(plan_.chunks[chunk], &chunks_[chunk], due, &nobody_hears);
  if (plan_.rules.cut_every > 0) chunks_[chunk].TakeImages();
}

}  // namespace strata::server
