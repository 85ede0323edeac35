#include "server/shard/shard_job.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/require.h"
#include "server/shard/frames/reply.h"

namespace strata::server {

using wire::ErrorCode;
using wire::Op;

namespace {

std::vector<uint64_t> BeginsOf(const std::vector<OwnChunk>& chunks) {
  std::vector<uint64_t> begins;
  for (const OwnChunk& chunk : chunks) begins.push_back(chunk.begin);
  return begins;
}

// Errors: FailedPrecondition: a node has pushed the clock already.
absl::Status CheckAhead(const ShardPlan& plan, uint64_t clock,
                        absl::Span<const std::unique_ptr<ChunkState>> chunks) {
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (size_t node = 0; node < plan.nodes.size(); ++node) {
      const ChunkState& state = *chunks[chunk];
      if (state.IsRetired(node) || state.Received(node) <= clock) continue;
      return absl::FailedPreconditionError(
          absl::StrFormat("the job's nodes are to change at clock %d, but node %d has pushed chunk "
                          "%d of it already",
                          clock, plan.nodes[node].value(), plan.chunks[chunk].id.value()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

ShardJob::ShardJob(ShardPlan plan, ShardCopy copy, const kernels::Kernels& kernels,
                   BufferPool& pool, kernels::EncoderScratch* scratch, Refusals* refusals,
                   std::vector<ShardCut>* cuts, std::unique_ptr<TraceLog> trace)
    : plan_(std::move(plan)),
      kernels_(kernels),
      cut_memory_(pool.RetainMore(CutBytes(plan_))),
      connections_(plan_.nodes.size(), plan_.connections),
      gate_(plan_, connections_),
      trace_(std::move(trace)),
      sender_(plan_, connections_, &trace_, &counters_, refusals),
      cuts_(BeginsOf(plan_.chunks)),
      cuts_out_(cuts),
      is_backup_(copy != ShardCopy::kPrimary) {
  for (const OwnChunk& chunk : plan_.chunks) {
    chunks_.push_back(std::make_unique<ChunkState>(kernels, pool, scratch, plan_.rules,
                                                   chunk.elements, chunk.runs));
  }
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) JoinAll(chunk);
  if (copy == ShardCopy::kEmptyBackup) lacks_.assign(chunks_.size(), true);
  if (is_backup_ || plan_.backup.empty()) return;
  backup_ = NewBackupLine(plan_.backup, plan_.generation);
  for (const auto& chunk : chunks_) chunk->sums().Keep(plan_.logs_sums);
}

absl::Status ShardJob::Restore(absl::Span<const ChunkImage> images) {
  for (const ChunkImage& image : images) {
    const auto own =
        std::lower_bound(plan_.chunks.begin(), plan_.chunks.end(), image.begin,
                         [](const OwnChunk& chunk, uint64_t begin) { return chunk.begin < begin; });
    if (own == plan_.chunks.end() || own->begin != image.begin) continue;
    ChunkState& chunk = *chunks_[static_cast<size_t>(own - plan_.chunks.begin())];
    absl::Status restored = chunk.weights().seeded()
                                ? absl::InvalidArgumentError("it is there twice")
                                : chunk.Restore(image);
    if (!restored.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the checkpoint's chunk %d: %s", own->id.value(), restored.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status ShardJob::CheckRestored() const {
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (chunks_[chunk]->weights().seeded()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("the checkpoint has no elements from %d on, where chunk %d begins",
                        plan_.chunks[chunk].begin, plan_.chunks[chunk].id.value()));
  }
  return absl::OkStatus();
}

void ShardJob::SendDue(size_t chunk, const std::vector<DueAnswer>& due,
                       std::vector<ShardAction>* actions) {
  sender_.SendDue(plan_.chunks[chunk], chunks_[chunk].get(), due, actions);
  AnswerPulls(chunk, actions);
  if (plan_.rules.cut_every == 0) return;
  for (ChunkImage& image : chunks_[chunk]->TakeImages()) {
    const uint64_t clock = image.clock;
    if (is_backup_ || clock <= cut_floor_) continue;
    cuts_.Add(chunk, clock, std::move(image));
  }
  for (Cut<ChunkImage>& cut : cuts_.Take()) {
    cuts_out_->push_back({std::move(cut), plan_.job, plan_.shard});
  }
}

// A node that leaves needs nothing here but its RETIRE.
absl::Status ShardJob::ChangeView(const proto::ViewChange& change) {
  Views changed = *plan_.views;
  if (absl::Status added = changed.Add(change); !added.ok()) return added;
  if (changed.number() == plan_.views->number()) return absl::OkStatus();
  absl::Status ahead = CheckAhead(plan_, change.at_clock(), chunks_);
  if (!ahead.ok()) return ahead;
  *plan_.views = std::move(changed);
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) JoinAll(chunk);
  return absl::OkStatus();
}

void ShardJob::JoinAll(size_t chunk) {
  for (size_t node = 0; node < plan_.nodes.size(); ++node) {
    const uint64_t clock = plan_.views->JoinedAt(plan_.nodes[node]);
    if (clock > 0) chunks_[chunk]->Join(node, clock);
  }
}

bool ShardJob::OnHello(transport::ConnectionId connection, const wire::Frame& frame,
                       const wire::Hello& hello, absl::Time now,
                       std::vector<ShardAction>* actions) {
  counters_.bytes_received += wire::kHeaderBytes + frame.payload.size();
  if (hello.role == wire::Hello::Role::kPrimary) {
    return OnPrimaryHello(connection, frame, hello, actions);
  }
  if (is_backup_) {  // which nodes hear first when it is no backup any more
    return sender_.Send(connection, RetryReply(frame.header, ErrorCode::kWrongRole), actions),
           false;
  }
  Binding binding;
  if (std::optional<FrameFault> fault =
          gate_.CheckHello(connection, frame.header, hello, &binding)) {
    Reject(connection, frame, *fault, actions);
    return false;
  }
  connections_.Bind(connection, binding);
  sender_.Send(connection, Reply(frame.header, Op::kHelloOk), actions);
  return true;
}

void ShardJob::OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       std::vector<ShardAction>* actions) {
  counters_.bytes_received += wire::kHeaderBytes + frame.payload.size();
  if (backup_ != nullptr && backup_->Owns(connection)) {
    backup_->OnFrame(frame, now);
    Fill(backup_.get(), &fill_, now);
    return PassOn(actions);
  }
  if (next_ && next_->line->Owns(connection)) {
    next_->line->OnFrame(frame, now);
    Fill(next_->line.get(), &next_->fill, now);
    return next_->line->TakeActions(actions);
  }
  if (primary_ == connection) return OnPrimaryFrame(connection, frame, now, actions);
  std::vector<ShardAction> made;
  OnNodeFrame(connection, frame, now, &made);
  Emit(std::move(made), actions);
}

void ShardJob::OnNodeFrame(transport::ConnectionId connection, const wire::Frame& frame,
                           absl::Time now, std::vector<ShardAction>* actions) {
  const Binding* const bound = connections_.Find(connection);
  STRATA_REQUIRE(bound != nullptr);
  const Binding binding = *bound;
  const Op op = frame.header.op;
  size_t chunk = 0;
  std::optional<FrameFault> fault = gate_.Check(binding, frame, &chunk);
  if (!fault && (op == Op::kPushPull || op == Op::kCut) && !chunks_[chunk]->weights().seeded()) {
    fault = FrameFault{.retry = true};
  }
  if (!fault && stands_still_) fault = FrameFault{.retry = true};
  if (fault) return Reject(connection, frame, *fault, actions);
  connections_.OnAccepted(connection, binding);
  switch (op) {
    case Op::kInit:
      return OnInit(connection, binding.node, frame, chunk, now, actions);
    case Op::kPushPull:
      return OnPushPull(connection, binding, frame, chunk, now, actions);
    case Op::kPull:
      return OnPull(connection, binding.node, frame, chunk, actions);
    case Op::kCut:
      return OnCut(binding.node, frame, chunk, actions);
    default:
      return OnRetire(connection, binding.node, frame, now, actions);
  }
}

void ShardJob::Reject(transport::ConnectionId connection, const wire::Frame& frame,
                      const FrameFault& fault, std::vector<ShardAction>* actions) {
  if (fault.retry) return sender_.Send(connection, RetryReply(frame.header, fault.code), actions);
  sender_.Refuse(connection, frame, fault.code, fault.reason, actions);
}

void ShardJob::Refuse(transport::ConnectionId connection, const wire::Frame& frame, ErrorCode code,
                      const std::string& reason, std::vector<ShardAction>* actions) {
  sender_.Refuse(connection, frame, code, reason, actions);
}

void ShardJob::OnInit(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                      size_t chunk, absl::Time now, std::vector<ShardAction>* actions) {
  ChunkState& state = *chunks_[chunk];
  const kernels::WeightState& weights = state.weights();
  if ((frame.header.flags & wire::kFlagEmpty) != 0)
    return GiveFirst(connection, node, frame, chunk, actions);
  const uint64_t checksum = wire::PayloadChecksum(frame.payload);
  if (weights.seeded()) {
    if (weights.seed_checksum() != checksum) {
      return Refuse(connection, frame, ErrorCode::kConflict, "other first weights than before",
                    actions);
    }
  } else if (!kernels_.all_finite(frame.payload.floats(), frame.payload.float_count())) {
    return Refuse(connection, frame, ErrorCode::kNotFinite, "NaN or infinity in first weights",
                  actions);
  } else {
    state.Seed(frame.payload, checksum);
    Log(frame, now);
  }
  sender_.Send(connection, Reply(frame.header, Op::kInitOk), actions);
}

void ShardJob::OnPushPull(transport::ConnectionId connection, const Binding& binding,
                          const wire::Frame& frame, size_t chunk, absl::Time now,
                          std::vector<ShardAction>* actions) {
  const wire::Header& header = frame.header;
  ChunkState& state = *chunks_[chunk];
  const uint64_t version_before = state.weights().version();
  const absl::Time deadline_before = state.deadline();
  trace_.OnArrival();
  if (header.clock == state.Received(binding.node)) {
    trace_.OnPush(NodeId(header.node), ChunkId(header.chunk), header.clock);
  }
  std::vector<DueAnswer> due;
  const PushResult result = state.OnPush(PushOf(frame, binding.node, now + ahead_), &due);
  UpdateDeadline(chunk, deadline_before);
  if (plan_.logs_sums) {
    LogSums(chunk, now);
  } else if (result.error == ErrorCode::kNone && !result.unchanged) {
    Log(frame, now);
  }
  if (result.error != ErrorCode::kNone) {
    Refuse(connection, frame, result.error, PushReason(header, result.reason), actions);
    return SendDue(chunk, due, actions);
  }
  if (result.duplicate) {
    ++counters_.duplicates;
    return sender_.SendAgain(connection, plan_.chunks[chunk], &state, due, actions);
  }
  ++counters_.pushes;
  if (state.weights().version() != version_before) {
    trace_.OnApplied(NodeId(header.node), ChunkId(header.chunk), header.clock);
  }
  connections_.OnNewPush(connection, binding);
  SendDue(chunk, due, actions);
}

void ShardJob::OnCut(size_t node, const wire::Frame& frame, size_t chunk,
                     std::vector<ShardAction>* actions) {
  std::vector<DueAnswer> due;
  chunks_[chunk]->OnCut(node, frame.header.clock, &due);
  SendDue(chunk, due, actions);
}

void ShardJob::OnRetire(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                        absl::Time now, std::vector<ShardAction>* actions) {
  sender_.Send(connection, Reply(frame.header, Op::kRetireOk), actions);
  // A process that has left asks again, and another one has joined the job since.
  if (frame.header.clock < plan_.views->JoinedAt(plan_.nodes[node])) return;
  if (!chunks_.empty() && chunks_[0]->IsRetired(node)) return;  // it asks again
  Log(frame, now);
  Retire(node, now, actions);
}

void ShardJob::Retire(size_t node, absl::Time now, std::vector<ShardAction>* actions) {
  trace_.OnArrival();
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (Lacks(chunk)) continue;
    ChunkState& state = *chunks_[chunk];
    const absl::Time deadline_before = state.deadline();
    std::vector<DueAnswer> due;
    state.OnRetire(node, now + ahead_, &due);
    UpdateDeadline(chunk, deadline_before);
    LogSums(chunk, now);
    SendDue(chunk, due, actions);
  }
}

void ShardJob::UpdateDeadline(size_t chunk, absl::Time before) {
  const absl::Time deadline = chunks_[chunk]->deadline();
  if (deadline == before) return;
  deadlines_.erase({before, chunk});
  if (deadline < absl::InfiniteFuture()) deadlines_.insert({deadline, chunk});
}

absl::Time ShardJob::deadline() const {
  absl::Time due = next_ ? next_->line->deadline() : absl::InfiniteFuture();
  if (is_backup_) return due;
  if (backup_ != nullptr) due = std::min(due, backup_->deadline());
  if (!deadlines_.empty()) due = std::min(due, deadlines_.begin()->first - ahead_);
  return due;
}

void ShardJob::OnTime(absl::Time now, std::vector<ShardAction>* actions) {
  if (next_) next_->line->OnTime(now);
  if (is_backup_) return PassOn(actions);
  std::vector<ShardAction> made;
  OnDeadlines(now, &made);
  if (backup_ != nullptr) backup_->OnTime(now);
  Emit(std::move(made), actions);
}

void ShardJob::OnDeadlines(absl::Time now, std::vector<ShardAction>* made) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now + ahead_) {
    const auto [before, chunk] = *deadlines_.begin();
    trace_.OnArrival();
    std::vector<DueAnswer> due;
    chunks_[chunk]->OnTime(now + ahead_, &due);
    UpdateDeadline(chunk, before);
    LogGraceIsOver(chunk, now);
    SendDue(chunk, due, made);
  }
}

}  // namespace strata::server
