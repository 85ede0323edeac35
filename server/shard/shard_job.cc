#include "server/shard/shard_job.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/require.h"
#include "server/shard/shard_action.h"

namespace strata::server {

using wire::ErrorCode;
using wire::Op;

namespace {

// Nodes' chunks that a report examines, on average; each takes some 10 ns.
constexpr size_t kLooksPerReport = 1 << 19;
// A server that does not have the job yet cannot answer sealed frames.
constexpr absl::Duration kHelloTimeout = absl::Seconds(1);

std::vector<uint64_t> BeginsOf(const std::vector<OwnChunk>& chunks) {
  std::vector<uint64_t> begins;
  for (const OwnChunk& chunk : chunks) begins.push_back(chunk.begin);
  return begins;
}

}  // namespace

ShardJob::ShardJob(ShardPlan plan, ShardCopy copy, const kernels::Kernels& kernels,
                   BufferPool& pool, numerics::EncoderScratch* scratch, Refusals* refusals,
                   std::vector<ShardCut>* cuts, std::vector<ShardRowsPiece>* pieces,
                   std::unique_ptr<ShardRows> rows, std::unique_ptr<TraceLog> trace)
    : plan_(std::move(plan)),
      kernels_(kernels),
      cut_memory_(pool.RetainMore(CutBytes(plan_))),
      connections_(plan_.nodes.size(), plan_.slots()),
      gate_(plan_, connections_),
      chunks_(plan_, kernels, pool, scratch),
      rows_(std::move(rows)),
      pieces_out_(pieces),
      tables_(std::make_shared<const std::vector<rows::TableSpec>>(plan_.rows.tables)),
      trace_(std::move(trace)),
      sender_(plan_, connections_, &trace_, &counters_, refusals),
      cuts_(BeginsOf(plan_.chunks)),
      cuts_out_(cuts),
      role_(copy == ShardCopy::kPrimary
                ? Role(std::in_place_type<PrimaryRole>, plan_, gate_, &chunks_, &next_,
                       /*stands_still=*/false)
                : Role(std::in_place_type<BackupRole>, plan_, gate_, &sender_, &chunks_, &next_,
                       /*is_empty=*/copy == ShardCopy::kEmptyBackup)) {
  if (!is_primary() || plan_.backup.empty()) return;
  primary().BeginBackup(NewCopy(plan_.backup, plan_.generation, std::nullopt));
}

void ShardJob::SendDue(size_t chunk, const std::vector<DueAnswer>& due,
                       std::vector<ShardAction>* actions) {
  sender_.SendDue(plan_.chunks[chunk], &chunks_[chunk], due, actions);
  AnswerPulls(chunk, actions);
  if (plan_.rules.cut_every == 0) return;
  for (ChunkImage& image : chunks_[chunk].TakeImages()) {
    const uint64_t clock = image.clock;
    if (clock <= cut_floor_) continue;
    cuts_.Add(chunk, clock, std::move(image));
  }
  for (Cut<ChunkImage>& cut : cuts_.Take()) {
    cuts_out_->push_back({std::move(cut), plan_.job, plan_.shard});
  }
}

// A leaving node needs nothing here but its RETIRE.
absl::Status ShardJob::ChangeView(const proto::ViewChange& change) {
  Views changed = *plan_.views;
  if (absl::Status added = changed.Add(change); !added.ok()) return added;
  if (changed.number() == plan_.views->number()) return absl::OkStatus();
  absl::Status ahead = chunks_.CheckAhead(change.at_clock());
  if (!ahead.ok()) return ahead;
  *plan_.views = std::move(changed);
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) chunks_.JoinAll(chunk);
  return absl::OkStatus();
}

bool ShardJob::OnHello(transport::ConnectionId connection, const wire::Frame& frame,
                       const wire::Hello& hello, absl::Time now,
                       std::vector<ShardAction>* actions) {
  counters_.bytes_received += wire::kHeaderBytes + frame.payload.size();
  if (hello.role == wire::Hello::Role::kPrimary) {
    return OnPrimaryHello(connection, frame, hello, actions);
  }
  if (!is_primary()) {  // it will be, or the node learns of another one
    sender_.Send(connection, RetryReply(frame.header, ErrorCode::kWrongRole), actions);
    return false;
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

bool ShardJob::OnPrimaryHello(transport::ConnectionId connection, const wire::Frame& frame,
                              const wire::Hello& hello, std::vector<ShardAction>* actions) {
  std::optional<FrameFault> fault = gate_.CheckPrimary(frame.header, hello);
  if (!fault && is_primary()) fault = FrameFault{ErrorCode::kWrongRole, "this is no backup"};
  if (!fault && connections_.Find(connection) != nullptr) {
    fault = FrameFault{ErrorCode::kNoHello, "bound to a node"};
  }
  if (fault) {
    Reject(connection, frame, *fault, actions);
    return false;
  }
  std::get<BackupRole>(role_).OnHello(connection, frame, actions);
  return true;
}

void ShardJob::OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       std::vector<ShardAction>* actions) {
  counters_.bytes_received += wire::kHeaderBytes + frame.payload.size();
  if (FollowingCopy* const copy = CopyOn(connection)) {
    copy->line().OnFrame(frame, now);
    chunks_.Fill(copy, /*keeps_sums=*/plan_.logs_sums && is_primary(), now);
    return PassOn(actions);
  }
  if (BackupRole* const backup = std::get_if<BackupRole>(&role_)) {
    return backup->OnFrame(connection, frame, now, actions);
  }
  std::vector<ShardAction> made;
  OnNodeFrame(connection, frame, now, &made);
  primary().Emit(std::move(made), actions);
}

void ShardJob::OnNodeFrame(transport::ConnectionId connection, const wire::Frame& frame,
                           absl::Time now, std::vector<ShardAction>* actions) {
  const Binding* const bound = connections_.Find(connection);
  STRATA_REQUIRE(bound != nullptr);
  const Binding binding = *bound;
  if (frame.header.key_space == wire::KeySpace::kRows) {
    return OnRowsFrame(connection, binding, frame, actions);
  }
  const Op op = frame.header.op;
  size_t chunk = 0;
  std::optional<FrameFault> fault = gate_.Check(binding, frame, &chunk);
  if (!fault && (op == Op::kPushPull || op == Op::kCut) && !chunks_[chunk].weights().seeded()) {
    fault = FrameFault{.retry = true};
  }
  if (!fault && primary().stands_still()) fault = FrameFault{.retry = true};
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

void ShardJob::OnRowsFrame(transport::ConnectionId connection, const Binding& binding,
                           const wire::Frame& frame, std::vector<ShardAction>* actions) {
  size_t bucket = 0;
  const std::optional<FrameFault> fault = gate_.CheckRows(binding, frame, &bucket);
  if (fault) return Reject(connection, frame, *fault, actions);
  connections_.OnAccepted(connection, binding);
  if (frame.header.op == Op::kRetire) {
    sender_.Send(connection, Reply(frame.header, Op::kRetireOk), actions);
    std::vector<RowsAnswer> due;
    rows_->OnRetire(binding.node, &due);
    GiveRowPieces();
    return sender_.SendRows(due, *rows_, actions);
  }
  if (frame.header.op == Op::kPushPull) {
    return OnRowsPush(connection, binding, frame, bucket, actions);
  }
  absl::StatusOr<Bytes> found = rows_->Lookup(binding.node, frame);
  if (!found.ok()) {
    return Refuse(connection, frame, ErrorCode::kMalformed, std::string(found.status().message()),
                  actions);
  }
  wire::Frame answer = Reply(frame.header, Op::kRows);
  answer.header.element_count = static_cast<uint32_t>(found->float_count());
  answer.payload = *std::move(found);
  sender_.Send(connection, std::move(answer), actions);
}

void ShardJob::OnRowsPush(transport::ConnectionId connection, const Binding& binding,
                          const wire::Frame& frame, size_t bucket,
                          std::vector<ShardAction>* actions) {
  std::vector<RowsAnswer> due;
  const PushResult result = rows_->OnPush(bucket, binding.node, frame, &due);
  if (result.error != ErrorCode::kNone) {
    // The node says where itself: what is left of so short a text is for what is wrong.
    return Refuse(connection, frame, result.error, result.reason, actions);
  }
  ++(result.duplicate ? counters_.duplicates : counters_.pushes);
  if (!result.duplicate) connections_.OnNewPush(connection, binding);
  GiveRowPieces();
  sender_.SendRows(due, *rows_, actions);
}

void ShardJob::GiveRowPieces() {
  for (RowsPiece& piece : rows_->cuts().Take()) {
    pieces_out_->push_back({std::move(piece), plan_.job, plan_.shard, tables_, nullptr});
  }
}

void ShardJob::ReleaseRows() {
  if (rows_ == nullptr) return;
  rows_->cuts().LetGo();
  GiveRowPieces();
}

void ShardJob::GiveRestOfRows() {
  if (rows_ == nullptr || !rows_->cuts().has_rest()) return;
  pieces_out_->push_back(
      {*rows_->cuts().TakeRest(), plan_.job, plan_.shard, tables_, std::move(rows_)});
}

absl::Status ShardJob::Restore(const RowsImage& rows) {
  return rows_ == nullptr ? absl::InvalidArgumentError("the checkpoint has rows, the job no tables")
                          : rows_->Restore(rows);
}

absl::Status ShardJob::CheckRestored() const {
  absl::Status chunks = chunks_.CheckRestored();
  return chunks.ok() && rows_ != nullptr ? rows_->CheckRestored() : chunks;
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
  ChunkState& state = chunks_[chunk];
  const numerics::WeightState& weights = state.weights();
  if ((frame.header.flags & wire::kFlagEmpty) != 0) {
    return GiveFirst(connection, node, frame, chunk, actions);
  }
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
    primary().Log(frame, chunk, now);
  }
  sender_.Send(connection, Reply(frame.header, Op::kInitOk), actions);
}

void ShardJob::OnPushPull(transport::ConnectionId connection, const Binding& binding,
                          const wire::Frame& frame, size_t chunk, absl::Time now,
                          std::vector<ShardAction>* actions) {
  const wire::Header& header = frame.header;
  ChunkState& state = chunks_[chunk];
  const uint64_t version_before = state.weights().version();
  trace_.OnArrival();
  if (header.clock == state.Received(binding.node)) {
    trace_.OnPush(NodeId(header.node), ChunkId(header.chunk), header.clock);
  }
  std::vector<DueAnswer> due;
  PushResult result;
  chunks_.Change(chunk, [&](ChunkState& pushed) {
    result = pushed.OnPush(PushOf(frame, binding.node, chunks_.TimeAt(now)), &due);
  });
  if (plan_.logs_sums) {
    primary().LogSums(chunk, now);
  } else if (result.error == ErrorCode::kNone && !result.unchanged) {
    primary().Log(frame, chunk, now);
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
  chunks_[chunk].OnCut(node, frame.header.clock, &due);
  SendDue(chunk, due, actions);
}

void ShardJob::OnRetire(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                        absl::Time now, std::vector<ShardAction>* actions) {
  sender_.Send(connection, Reply(frame.header, Op::kRetireOk), actions);
  // A process that has left repeats its request, and another one has joined the job since.
  if (frame.header.clock < plan_.views->JoinedAt(plan_.nodes[node])) return;
  if (chunks_.size() > 0 && chunks_[0].IsRetired(node)) return;  // it asks again
  primary().Log(frame, /*chunk=*/std::nullopt, now);
  trace_.OnArrival();
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    std::vector<DueAnswer> due;
    chunks_.Change(chunk,
                   [&](ChunkState& state) { state.OnRetire(node, chunks_.TimeAt(now), &due); });
    primary().LogSums(chunk, now);
    SendDue(chunk, due, actions);
  }
}

void ShardJob::GiveFirst(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                         size_t chunk, std::vector<ShardAction>* actions) {
  if (!chunks_[chunk].weights().seeded()) {
    return sender_.Send(connection, RetryReply(frame.header, ErrorCode::kNone), actions);
  }
  wire::Frame answer = Reply(frame.header, Op::kFirst);
  WeightVersion given = chunks_[chunk].WeightsToBeginWith(node);
  answer.header.element_count = plan_.chunks[chunk].elements;
  answer.header.version = given.version;
  answer.header.received = chunks_[chunk].Received(node);
  answer.payload = std::move(given.weights);
  sender_.Send(connection, std::move(answer), actions);
}

void ShardJob::OnPull(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                      size_t chunk, std::vector<ShardAction>* actions) {
  const ChunkState& state = chunks_[chunk];
  // The change by which it joins is in flight.
  if (!plan_.views->HasEver(plan_.nodes[node])) {
    return sender_.Send(connection, RetryReply(frame.header, ErrorCode::kNone), actions);
  }
  wire::Frame answer = Reply(frame.header, Op::kPulled);
  answer.header.flags = wire::kFlagEmpty;
  answer.header.received = kClockInfinity;
  const bool only_counts = (frame.header.flags & wire::kFlagEmpty) != 0;
  if (state.weights().seeded()) {
    answer.header.received = state.Received(node);
    answer.header.version = state.weights().version();
  }
  if (only_counts || !state.weights().seeded()) {
    return sender_.Send(connection, std::move(answer), actions);
  }
  PulledWeights pulled = state.WeightsOf(node, frame.header.clock);
  const std::optional<uint64_t> leaves_at = plan_.views->LeavesAt(plan_.nodes[node]);
  const bool makes_no_step =
      leaves_at && frame.header.clock >= *leaves_at && answer.header.received >= frame.header.clock;
  if (makes_no_step && pulled.state == PulledWeights::State::kNowhere) {
    pulled = {.state = PulledWeights::State::kHere, .weights = state.WeightsToBeginWith(node)};
  }
  if (pulled.state == PulledWeights::State::kNotYet) {
    return pulls_.Add(chunk, {.connection = connection, .node = node, .frame = frame});
  }
  if (pulled.state == PulledWeights::State::kHere) {
    answer.header.flags = 0;
    answer.header.element_count = plan_.chunks[chunk].elements;
    answer.header.version = pulled.weights.version;
    answer.header.base_version = pulled.base;
    answer.payload = std::move(pulled.weights.weights);
  }
  sender_.Send(connection, std::move(answer), actions);
}

// A PULL that has waited may be refused by now: another process has replaced the node's, or the
// weights are gone.
void ShardJob::AnswerPulls(size_t chunk, std::vector<ShardAction>* actions) {
  for (const WaitingPulls::Pull& pull : pulls_.Take(chunk)) {
    const Binding* const bound = connections_.Find(pull.connection);
    if (bound == nullptr || bound->node != pull.node) continue;
    size_t index = 0;
    const std::optional<FrameFault> fault = gate_.Check(*bound, pull.frame, &index);
    if (fault) {
      Reject(pull.connection, pull.frame, *fault, actions);
    } else {
      OnPull(pull.connection, pull.node, pull.frame, chunk, actions);
    }
  }
}

absl::Time ShardJob::deadline() const {
  absl::Time due = next_.copy ? next_.copy->line().deadline() : absl::InfiniteFuture();
  if (!is_primary()) return due;
  if (backup() != nullptr) due = std::min(due, backup()->line().deadline());
  return std::min(due, chunks_.deadline());
}

void ShardJob::OnTime(absl::Time now, std::vector<ShardAction>* actions) {
  if (next_.copy) next_.copy->line().OnTime(now);
  if (!is_primary()) return PassOn(actions);
  std::vector<ShardAction> made;
  OnDeadlines(now, &made);
  if (backup() != nullptr) backup()->line().OnTime(now);
  primary().Emit(std::move(made), actions);
}

void ShardJob::OnDeadlines(absl::Time now, std::vector<ShardAction>* made) {
  while (const std::optional<size_t> chunk = chunks_.NextDue(now)) {
    trace_.OnArrival();
    std::vector<DueAnswer> due;
    chunks_.Change(*chunk, [&](ChunkState& state) { state.OnTime(chunks_.TimeAt(now), &due); });
    primary().LogGraceIsOver(*chunk, now);
    SendDue(*chunk, due, made);
  }
}

const FollowingCopy* ShardJob::backup() const {
  const PrimaryRole* const primary = std::get_if<PrimaryRole>(&role_);
  return primary == nullptr ? nullptr : primary->backup();
}

FollowingCopy* ShardJob::CopyAt(const std::string& address) {
  if (backup() != nullptr && backup()->address() == address) return backup();
  return next_.copy && next_.copy->address() == address ? &*next_.copy : nullptr;
}

FollowingCopy* ShardJob::CopyOn(transport::ConnectionId connection) {
  if (backup() != nullptr && backup()->line().Owns(connection)) return backup();
  return next_.copy && next_.copy->line().Owns(connection) ? &*next_.copy : nullptr;
}

void ShardJob::PassOn(std::vector<ShardAction>* actions) {
  std::visit([&](auto& role) { role.PassOn(actions); }, role_);
}

bool ShardJob::OnConnected(const std::string& address, transport::ConnectionId connection,
                           absl::Time now, std::vector<ShardAction>* actions) {
  FollowingCopy* const copy = CopyAt(address);
  if (copy == nullptr) return false;
  copy->line().OnConnected(connection, now);
  PassOn(actions);
  return true;
}

void ShardJob::OnConnectFailed(const std::string& address, const absl::Status& why, absl::Time now,
                               std::vector<ShardAction>* actions) {
  FollowingCopy* const copy = CopyAt(address);
  if (copy == nullptr) return;
  copy->line().OnLost(why, now);
  PassOn(actions);
}

void ShardJob::OnDisconnected(transport::ConnectionId connection, const absl::Status& why,
                              absl::Time now, std::vector<ShardAction>* actions) {
  if (FollowingCopy* const copy = CopyOn(connection)) {
    copy->line().OnLost(why, now);
    return PassOn(actions);
  }
  if (BackupRole* const backup = std::get_if<BackupRole>(&role_)) {
    backup->OnDisconnected(connection);
  }
  pulls_.Forget(connection);
  connections_.OnDisconnected(connection);
}

std::vector<transport::ConnectionId> ShardJob::Connections() const {
  std::vector<transport::ConnectionId> all = connections_.All();
  const auto add = [&](std::optional<transport::ConnectionId> connection) {
    if (connection.has_value()) all.push_back(*connection);
  };
  if (const BackupRole* const role = std::get_if<BackupRole>(&role_)) add(role->primary());
  if (backup() != nullptr) add(backup()->line().connection());
  if (next_.copy) add(next_.copy->line().connection());
  return all;
}

FollowingCopy ShardJob::NewCopy(const std::string& address, uint32_t generation,
                                std::optional<BackupFill> fill) const {
  return FollowingCopy({.shard = plan_.shard,
                        .address = address,
                        .identity = {.job = plan_.job.value(),
                                     .view = plan_.view,
                                     .generation = generation,
                                     .hello = {.protocol = kProtocolVersion,
                                               .role = wire::Hello::Role::kPrimary,
                                               .cluster = plan_.cluster,
                                               .token = plan_.token,
                                               .shard = plan_.shard.value()}},
                        .timing = {.hello_timeout = kHelloTimeout}},
                       std::move(fill));
}

absl::Status ShardJob::CheckNewer(uint32_t generation) const {
  if (generation > plan_.generation) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("job %d shard %d is in generation %d, %d is not newer", plan_.job.value(),
                      plan_.shard.value(), plan_.generation, generation));
}

absl::Status ShardJob::Promote(uint32_t generation, std::vector<ShardAction>* actions) {
  if (is_primary()) return ContinueWithoutBackup(generation, actions);
  if (absl::Status newer = CheckNewer(generation); !newer.ok()) return newer;
  BackupRole& backup = std::get<BackupRole>(role_);
  if (const size_t lacking = backup.chunks_missing(); lacking > 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("job %d shard %d: %d of its chunks have not come here", plan_.job.value(),
                        plan_.shard.value(), lacking));
  }
  next_.Drop(actions);
  backup.ClosePrimary(actions);
  role_.emplace<PrimaryRole>(plan_, gate_, &chunks_, &next_, plan_.waits_unprotected);
  plan_.backup.clear();
  plan_.generation = generation;
  plan_.heard_from = generation;
  // The image of a clock is whole or absent: earlier cuts were the former primary's.
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    cut_floor_ = std::max(cut_floor_, chunks_[chunk].last_cut());
  }
  return absl::OkStatus();
}

absl::Status ShardJob::ContinueWithoutBackup(uint32_t generation,
                                             std::vector<ShardAction>* actions) {
  if (is_primary() && backup() == nullptr && generation == plan_.generation) {
    return absl::OkStatus();
  }
  if (absl::Status newer = CheckNewer(generation); !newer.ok()) return newer;
  if (!is_primary()) {
    return absl::FailedPreconditionError(absl::StrFormat("job %d shard %d is a backup here",
                                                         plan_.job.value(), plan_.shard.value()));
  }
  plan_.generation = generation;
  plan_.backup.clear();
  primary().EndBackups(actions);
  return absl::OkStatus();
}

absl::Status ShardJob::CheckMayBeCopied() const {
  if (rows_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "job %d shard %d has rows, which are not copied", plan_.job.value(), plan_.shard.value()));
}

absl::Status ShardJob::FillBackup(uint32_t generation, const std::string& address, bool is_whole,
                                  std::vector<ShardAction>* actions) {
  if (absl::Status may = CheckMayBeCopied(); !may.ok()) return may;
  if (backup() != nullptr && generation == plan_.generation && address == plan_.backup) {
    if (is_whole) primary().Resume();
    return absl::OkStatus();
  }
  if (next_.copy && generation == next_.generation && address == next_.copy->address()) {
    return TakeNext(is_whole, actions);
  }
  // It may learn at once that it is the primary and that it has another backup.
  absl::Status alone = Promote(generation, actions);
  if (!alone.ok()) return alone;
  plan_.backup = address;
  primary().BeginBackup(NewCopy(address, generation, BackupFill(chunks_.size())));
  return absl::OkStatus();
}

absl::Status ShardJob::FillNext(uint32_t generation, const std::string& address,
                                std::vector<ShardAction>* actions) {
  if (absl::Status may = CheckMayBeCopied(); !may.ok()) return may;
  const bool is_old = generation <= plan_.generation || generation < next_.generation;
  const bool is_done =
      next_.copy && generation == next_.generation && address == next_.copy->address();
  if (is_old || is_done) return absl::OkStatus();
  next_.Drop(actions);
  next_.generation = generation;
  if (address.empty()) return absl::OkStatus();
  if (address == plan_.backup) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "job %d shard %d: its backup is at %s", plan_.job.value(), plan_.shard.value(), address));
  }
  const BackupRole* const role = std::get_if<BackupRole>(&role_);
  if (role != nullptr && role->chunks_missing() > 0) {
    return absl::FailedPreconditionError(absl::StrFormat("job %d shard %d is not whole here",
                                                         plan_.job.value(), plan_.shard.value()));
  }
  next_.copy.emplace(NewCopy(address, generation, BackupFill(chunks_.size())));
  return absl::OkStatus();
}

absl::Status ShardJob::TakeNext(bool is_whole, std::vector<ShardAction>* actions) {
  STRATA_REQUIRE(next_.copy.has_value());
  FollowingCopy next = *std::move(next_.copy);
  next_.copy.reset();
  if (!is_primary()) {
    if (absl::Status done = Promote(next_.generation, actions); !done.ok()) return done;
  }
  plan_.generation = next_.generation;
  plan_.backup = next.address();
  primary().TakeNext(std::move(next), is_whole, actions);
  return absl::OkStatus();
}

std::vector<BackupState> ShardJob::backup_states() const {
  std::vector<BackupState> states;
  const auto add = [&](const FollowingCopy& copy, bool is_next) {
    states.push_back({.job = plan_.job,
                      .shard = plan_.shard,
                      .generation = is_next ? next_.generation : plan_.generation,
                      .waits_since = copy.line().waits_since(),
                      .refusal = copy.line().refusal(),
                      .chunks_missing = copy.chunks_missing(),
                      .is_next = is_next});
  };
  if (backup() != nullptr) add(*backup(), false);
  if (next_.copy) add(*next_.copy, true);
  return states;
}

std::vector<proto::NodeClock> ShardJob::NextNodeClocks() {
  if (reports_to_skip_ > 0) {
    --reports_to_skip_;
    return {};
  }
  reports_to_skip_ = plan_.nodes.size() * plan_.chunks.size() / kLooksPerReport;
  return NodeClocks();
}

std::vector<proto::NodeClock> ShardJob::NodeClocks() const {
  if (plan_.chunks.empty() || !is_primary()) return {};  // nodes do not talk to a backup
  std::vector<proto::NodeClock> clocks(plan_.nodes.size());
  for (size_t node = 0; node < plan_.nodes.size(); ++node) {
    clocks[node].set_node(plan_.nodes[node].value());
    clocks[node].set_clock(kClockInfinity);
    clocks[node].set_connected(connections_.IsConnected(node));
  }
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const ChunkState& state = chunks_[chunk];
    for (size_t node = 0; node < plan_.nodes.size(); ++node) {
      proto::NodeClock& clock = clocks[node];
      if (state.Received(node) < clock.clock()) {
        clock.set_clock(state.Received(node));
        clock.set_chunk(plan_.chunks[chunk].id.value());
        clock.set_retired(state.IsRetired(node));
      }
      if (state.IsWaiting(node)) clock.set_unanswered(clock.unanswered() + 1);
    }
  }
  return clocks;
}

uint64_t ShardJob::MemoryBytes() const {
  uint64_t bytes = chunks_.bytes() + cuts_.bytes();
  if (rows_ != nullptr) bytes += rows_->memory_bytes();
  if (const BackupRole* const role = std::get_if<BackupRole>(&role_)) bytes += role->bytes();
  if (backup() != nullptr) bytes += backup()->line().bytes();
  if (next_.copy) bytes += next_.copy->line().bytes();
  if (trace_.log() != nullptr) bytes += trace_.log()->memory_bytes();
  return bytes;
}

size_t ShardJob::HeldSums(ChunkId chunk) const {
  const std::optional<size_t> index = gate_.IndexOf(chunk);
  return index ? chunks_[*index].held() : 0;
}

ChunkState* ShardJob::FindChunk(ChunkId chunk) {
  const std::optional<size_t> index = gate_.IndexOf(chunk);
  return index ? &chunks_[*index] : nullptr;
}

}  // namespace strata::server
