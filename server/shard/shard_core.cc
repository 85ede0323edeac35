#include "server/shard/shard_core.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/job/job.h"
#include "common/job/placement.h"
#include "server/shard/shard_action.h"
#include "server/shard/shard_job.h"
#include "server/shard/shard_plan.h"

namespace strata::server {
namespace {

// Former shards and connections that are remembered.
constexpr size_t kLeftMax = 4096;

absl::Status NotHere(JobId job, ShardId shard) {
  return absl::NotFoundError(
      absl::StrFormat("shard %d of job %d is not here", shard.value(), job.value()));
}

// Changes of the job's nodes also come one by one.
std::string TextOf(proto::JobRecord record) {
  record.clear_view_changes();
  return record.SerializeAsString();
}

// If several shards of a job are on one thread, reports the slowest state of each node.
void AddNodeClock(const proto::NodeClock& clock, std::vector<proto::NodeClock>* clocks) {
  const auto same =
      absl::c_find_if(*clocks, [&](const auto& other) { return other.node() == clock.node(); });
  if (same == clocks->end()) return clocks->push_back(clock);
  proto::NodeClock both = clock.clock() < same->clock() ? clock : *same;
  both.set_connected(clock.connected() && same->connected());
  both.set_unanswered(clock.unanswered() + same->unanswered());
  *same = both;
}

}  // namespace

void ShardCounters::Add(const ShardCounters& other) {
  pushes += other.pushes;
  answers += other.answers;
  duplicates += other.duplicates;
  refused += other.refused;
  bytes_received += other.bytes_received;
  bytes_sent += other.bytes_sent;
}

ShardCore::ShardCore(const kernels::Kernels& kernels, NewMemory new_memory,
                     std::function<absl::Time()> trace_clock)
    : kernels_(kernels), new_memory_(std::move(new_memory)), trace_clock_(std::move(trace_clock)) {}
ShardCore::~ShardCore() = default;

absl::Status ShardCore::Install(const proto::JobRecord& record, ShardId own_shard,
                                absl::Span<const ChunkImage> images, ShardCopy copy) {
  const absl::StatusOr<bool> installed = BeginInstall(record, own_shard, copy);
  if (!installed.ok() || *installed) return installed.status();
  const JobId job(record.job_id());
  absl::Status taken = InstallMore(job, images);
  return taken.ok() ? EndInstall(job) : taken;
}

absl::StatusOr<bool> ShardCore::BeginInstall(const proto::JobRecord& record, ShardId own_shard,
                                             ShardCopy copy) {
  const JobId id(record.job_id());
  const JobShard key(id, own_shard);
  std::string text = TextOf(record);
  const bool is_late = copy == ShardCopy::kEmptyBackup;  // other shards have moved since
  for (const auto* jobs : {&jobs_, &installing_}) {
    for (const auto& [known, installed] : *jobs) {
      if (known.first != id || installed.record == text || (is_late && known != key)) continue;
      if (is_late &&
          installed.job->generation() == ShardGeneration(record.placement(), own_shard)) {
        continue;
      }
      return absl::AlreadyExistsError(
          absl::StrFormat("job %d is installed with another record", id.value()));
    }
    if (!jobs->contains(key)) continue;
    for (const proto::ViewChange& change : record.view_changes()) {
      if (absl::Status changed = ChangeView(change); !changed.ok()) return changed;
    }
    return jobs == &jobs_;
  }
  absl::StatusOr<ShardPlan> plan = MakeShardPlan(record, own_shard);
  if (!plan.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("job %d: %s", id.value(), std::string(plan.status().message())));
  }
  if (fill_ahead_bytes_) plan->fill_ahead_bytes = *fill_ahead_bytes_;
  if (row_piece_bytes_) plan->rows.piece_bytes = *row_piece_bytes_;
  std::unique_ptr<TraceLog> trace;
  const bool is_primary = copy == ShardCopy::kPrimary;
  if (trace_clock_ && is_primary) trace = TraceLog::Create(record.job(), {.now = trace_clock_});
  std::unique_ptr<ShardRows> rows;
  if (!plan->rows.tables.empty()) {
    auto created = ShardRows::Create(plan->rows, plan->nodes.size());
    if (!created.ok()) return created.status();
    rows = *std::move(created);
  }
  Installed made;
  if (new_memory_) made.memory = new_memory_();
  made.pool = std::make_unique<BufferPool>(BufferPool::kRetainedBytesMax, made.memory);
  made.job = std::make_unique<ShardJob>(*std::move(plan), copy, kernels_, *made.pool, &scratch_,
                                        &refusals_, &cuts_, &row_pieces_, std::move(rows),
                                        std::move(trace));
  made.record = std::move(text);
  made.cluster = record.cluster();
  made.token = record.token();
  if (record.has_resume() && copy != ShardCopy::kEmptyBackup) {
    installing_[key] = std::move(made);
    return false;
  }
  Add(key, std::move(made));
  return true;
}

absl::Status ShardCore::InstallMore(JobId id, absl::Span<const ChunkImage> images) {
  return Advance(id, [&](ShardJob& job) { return job.Restore(images); });
}

absl::Status ShardCore::InstallMore(JobId id, const RowsImage& rows) {
  return Advance(id, [&](ShardJob& job) { return job.Restore(rows); });
}

absl::Status ShardCore::EndInstall(JobId id) {
  const auto is_of_job = [id](const auto& entry) { return entry.first.first == id; };
  const bool is_here = absl::c_any_of(jobs_, is_of_job);
  if (is_here && absl::c_none_of(installing_, is_of_job)) return absl::OkStatus();
  absl::Status whole = Advance(id, [](ShardJob& job) { return job.CheckRestored(); });
  if (!whole.ok()) return whole;
  for (auto it = installing_.begin(); it != installing_.end();) {
    const auto entry = it++;
    if (!is_of_job(*entry)) continue;
    const JobShard key = entry->first;
    Add(key, std::move(entry->second));
    installing_.erase(entry);
  }
  return absl::OkStatus();
}

absl::Status ShardCore::Advance(JobId id, absl::FunctionRef<absl::Status(ShardJob&)> call) {
  absl::Status status = absl::CancelledError(absl::StrFormat("job %d was removed", id.value()));
  for (auto& [key, installed] : installing_) {
    if (key.first != id) continue;
    status = call(*installed.job);
    if (!status.ok()) break;
  }
  if (status.ok() || absl::IsCancelled(status)) return status;
  std::erase_if(installing_, [id](const auto& entry) { return entry.first.first == id; });
  const std::string text = absl::StrFormat("job %d: %s", id.value(), status.message());
  return absl::IsFailedPrecondition(status) ? absl::FailedPreconditionError(text)
                                            : absl::InvalidArgumentError(text);
}

void ShardCore::Add(const JobShard& id, Installed installed) {
  if (installed.job->trace() != nullptr) ++traced_;
  left_shards_.erase(id);
  jobs_[id] = std::move(installed);
}

absl::Status ShardCore::OnShard(JobId job, ShardId shard, std::vector<ShardAction>* actions,
                                absl::FunctionRef<absl::Status(ShardJob&)> call) {
  const auto found = jobs_.find(JobShard(job, shard));
  if (found == jobs_.end()) return NotHere(job, shard);
  const size_t first = actions->size();
  const absl::Status done = call(*found->second.job);
  UnbindClosed(first, *actions);
  return done;
}

absl::Status ShardCore::Promote(JobId job, ShardId shard, uint32_t generation,
                                std::vector<ShardAction>* actions) {
  return OnShard(job, shard, actions,
                 [&](ShardJob& found) { return found.Promote(generation, actions); });
}

absl::Status ShardCore::ContinueWithoutBackup(JobId job, ShardId shard, uint32_t generation,
                                              std::vector<ShardAction>* actions) {
  return OnShard(job, shard, actions,
                 [&](ShardJob& found) { return found.ContinueWithoutBackup(generation, actions); });
}

absl::Status ShardCore::FillBackup(JobId job, ShardId shard, uint32_t generation,
                                   const std::string& address, bool is_whole,
                                   std::vector<ShardAction>* actions) {
  return OnShard(job, shard, actions, [&](ShardJob& found) {
    return found.FillBackup(generation, address, is_whole, actions);
  });
}

absl::Status ShardCore::Move(const proto::MoveShard& move, std::vector<ShardAction>* actions) {
  const JobId job(move.job_id());
  const ShardId shard(move.shard());
  const std::string& backup = move.backup_endpoint();
  if (backup.empty()) return Promote(job, shard, move.generation(), actions);
  return FillBackup(job, shard, move.generation(), backup, move.backup_is_whole(), actions);
}

absl::Status ShardCore::FillNext(JobId job, ShardId shard, uint32_t generation,
                                 const std::string& address, std::vector<ShardAction>* actions) {
  return OnShard(job, shard, actions,
                 [&](ShardJob& found) { return found.FillNext(generation, address, actions); });
}

absl::Status ShardCore::ChangeView(const proto::ViewChange& change) {
  const JobId job(change.job_id());
  absl::Status status = absl::NotFoundError(absl::StrFormat("job %d is not here", job.value()));
  for (auto* const jobs : {&jobs_, &installing_}) {
    for (auto& [key, installed] : *jobs) {
      if (key.first != job) continue;
      status = installed.job->ChangeView(change);
      if (!status.ok()) return status;
    }
  }
  return status;
}

bool ShardCore::RemoveShard(JobId job, ShardId shard, uint32_t generation,
                            std::vector<ShardAction>* actions) {
  const auto found = jobs_.find(JobShard(job, shard));
  if (found == jobs_.end()) return false;
  if (found->second.job->generation() >= generation) return true;
  Close(*found, actions);
  jobs_.erase(found);
  return false;
}

void ShardCore::Close(const std::pair<const JobShard, Installed>& leaving,
                      std::vector<ShardAction>* actions) {
  const auto& [shard, installed] = leaving;
  for (const transport::ConnectionId connection : installed.job->Connections()) {
    Leave(connection);
    actions->push_back({.kind = ShardAction::Kind::kClose, .connection = connection});
  }
  if (installed.job->trace() != nullptr) --traced_;
  if (left_shards_.size() >= kLeftMax) left_shards_.erase(left_shards_.begin());
  left_shards_[shard] = {installed.cluster, installed.token};
}

void ShardCore::Leave(transport::ConnectionId connection) {
  if (bound_.erase(connection) == 0) return;
  if (left_connections_.size() >= kLeftMax) left_connections_.erase(left_connections_.begin());
  left_connections_.insert(connection);
}

bool ShardCore::HasLeft(const JobShard& shard, uint64_t cluster, uint64_t token) const {
  const auto left = left_shards_.find(shard);
  return left != left_shards_.end() && left->second == std::pair(cluster, token);
}

void ShardCore::UnbindClosed(size_t first, const std::vector<ShardAction>& actions) {
  for (size_t i = first; i < actions.size(); ++i) {
    if (actions[i].kind == ShardAction::Kind::kClose) Leave(actions[i].connection);
  }
}

const ShardCore::Installed* ShardCore::BoundTo(transport::ConnectionId connection) const {
  const auto bound = bound_.find(connection);
  return bound == bound_.end() ? nullptr : &jobs_.at(bound->second);
}

std::shared_ptr<BlockSource> ShardCore::MemoryOf(transport::ConnectionId connection) const {
  const Installed* const installed = BoundTo(connection);
  return installed == nullptr ? nullptr : installed->memory;
}

void ShardCore::ReleaseCut(JobId job, ShardId shard, uint64_t clock) {
  const auto found = jobs_.find(JobShard(job, shard));
  if (found != jobs_.end()) found->second.job->ReleaseCut(clock);
}

void ShardCore::ReleaseRows(JobId job, ShardId shard) {
  const auto found = jobs_.find(JobShard(job, shard));
  if (found != jobs_.end()) found->second.job->ReleaseRows();
}

void ShardCore::Remove(JobId job, std::vector<ShardAction>* actions) {
  const auto is_of_job = [job](const auto& entry) { return entry.first.first == job; };
  std::erase_if(installing_, is_of_job);
  for (const auto& entry : jobs_) {
    if (entry.first.first != job) continue;
    Close(entry, actions);
    entry.second.job->GiveRestOfRows();
  }
  std::erase_if(jobs_, is_of_job);
}

void ShardCore::OnFrame(transport::ConnectionId connection, wire::Frame frame, absl::Time now,
                        std::vector<ShardAction>* actions) {
  if (frame.header.op == wire::Op::kHello) return OnHello(connection, frame, now, actions);
  const Installed* const bound = BoundTo(connection);
  if (bound == nullptr) {
    const bool has_left = left_connections_.contains(connection);
    return Refuse(connection, frame, wire::ErrorCode::kNoHello, "HELLO comes first", actions,
                  has_left ? Sender::kLeft : Sender::kStranger);
  }
  const size_t first = actions->size();
  bound->job->OnFrame(connection, frame, now, actions);
  UnbindClosed(first, *actions);
}

void ShardCore::OnConnected(const ShardAction& asked, transport::ConnectionId connection,
                            absl::Time now, std::vector<ShardAction>* actions) {
  const JobShard key(asked.job, asked.shard);
  const auto found = jobs_.find(key);
  if (found == jobs_.end() ||
      !found->second.job->OnConnected(asked.address, connection, now, actions)) {
    return actions->push_back({.kind = ShardAction::Kind::kClose, .connection = connection});
  }
  bound_[connection] = key;
}

void ShardCore::OnConnectFailed(const ShardAction& asked, const absl::Status& why, absl::Time now,
                                std::vector<ShardAction>* actions) {
  const auto found = jobs_.find(JobShard(asked.job, asked.shard));
  if (found != jobs_.end()) found->second.job->OnConnectFailed(asked.address, why, now, actions);
}

void ShardCore::OnTime(absl::Time now, std::vector<ShardAction>* actions) {
  const size_t first = actions->size();
  for (auto& [id, installed] : jobs_) installed.job->OnTime(now, actions);
  UnbindClosed(first, *actions);
}

absl::Time ShardCore::deadline() const {
  absl::Time due = absl::InfiniteFuture();
  for (const auto& [id, installed] : jobs_) due = std::min(due, installed.job->deadline());
  return due;
}

void ShardCore::OnHello(transport::ConnectionId connection, const wire::Frame& frame,
                        absl::Time now, std::vector<ShardAction>* actions) {
  const JobId id(frame.header.job);
  wire::Hello hello;
  const absl::Status decoded =
      wire::DecodeHello(absl::MakeConstSpan(frame.payload.data(), frame.payload.size()), &hello);
  if (!decoded.ok()) {
    return Refuse(connection, frame, wire::ErrorCode::kMalformed, std::string(decoded.message()),
                  actions);
  }
  if (hello.protocol != kProtocolVersion) {
    return Refuse(connection, frame, wire::ErrorCode::kWrongVersion,
                  absl::StrFormat("protocol %d, here %d", hello.protocol, kProtocolVersion),
                  actions);
  }
  const JobShard key(id, ShardId(hello.shard));
  const auto job = jobs_.find(key);
  if (job == jobs_.end()) {
    const bool is_known =
        absl::c_any_of(jobs_, [id](const auto& entry) { return entry.first.first == id; });
    return Refuse(
        connection, frame, wire::ErrorCode::kWrongJob,
        is_known ? absl::StrFormat("shard %d of job %d is not here", hello.shard, id.value())
                 : absl::StrFormat("job %d is not here", id.value()),
        actions, HasLeft(key, hello.cluster, hello.token) ? Sender::kLeft : Sender::kStranger);
  }
  if (const auto bound = bound_.find(connection); bound != bound_.end() && bound->second != key) {
    return Refuse(connection, frame, wire::ErrorCode::kWrongJob, "bound to another job or shard",
                  actions);
  }
  const size_t first = actions->size();
  if (job->second.job->OnHello(connection, frame, hello, now, actions)) {
    bound_[connection] = key;
    left_connections_.erase(connection);
  }
  UnbindClosed(first, *actions);
}

void ShardCore::OnMalformed(transport::ConnectionId connection, std::vector<ShardAction>* actions) {
  Refuse(connection, {}, wire::ErrorCode::kMalformed, "", actions);
}

void ShardCore::Refuse(transport::ConnectionId connection, const wire::Frame& frame,
                       wire::ErrorCode code, const std::string& reason,
                       std::vector<ShardAction>* actions, Sender sender) {
  if (const Installed* const bound = BoundTo(connection)) {
    return bound->job->Refuse(connection, frame, code, reason, actions);
  }
  ++refused_;
  ++refusals_[RefusalCause(code, sender)];
  actions->push_back({ShardAction::Kind::kSend, connection,
                      ErrorReply(frame.header, frame.payload.size(), code, reason)});
}

void ShardCore::OnDisconnected(transport::ConnectionId connection, const absl::Status& why,
                               absl::Time now, std::vector<ShardAction>* actions) {
  left_connections_.erase(connection);
  const Installed* const bound = BoundTo(connection);
  if (bound == nullptr) return;
  bound_.erase(connection);
  bound->job->OnDisconnected(connection, why, now, actions);
}

absl::flat_hash_map<JobId, ShardCounters> ShardCore::Counters() const {
  absl::flat_hash_map<JobId, ShardCounters> counters;
  for (const auto& [id, installed] : jobs_) counters[id.first].Add(installed.job->counters());
  return counters;
}

std::vector<BackupState> ShardCore::BackupStates() const {
  std::vector<BackupState> states;
  for (const auto& [id, installed] : jobs_) {
    for (BackupState& state : installed.job->backup_states()) states.push_back(std::move(state));
  }
  return states;
}

TraceLog* ShardCore::TraceOf(JobId job) {
  if (traced_ == 0) return nullptr;
  for (const auto& [id, installed] : jobs_) {
    if (id.first == job && installed.job->trace() != nullptr) return installed.job->trace();
  }
  return nullptr;
}

std::vector<proto::TraceBatch> ShardCore::TakeTraces() {
  std::vector<proto::TraceBatch> batches;
  for (auto& [id, installed] : jobs_) {
    TraceLog* const log = installed.job->trace();
    while (log != nullptr && log->has_news()) {
      batches.push_back(log->TakeBatch());
      batches.back().set_job_id(id.first.value());
    }
  }
  return batches;
}

size_t ShardCore::HeldSums(JobId job, ChunkId chunk) const {
  size_t held = 0;
  for (const auto& [id, installed] : jobs_) {
    if (id.first == job) held += installed.job->HeldSums(chunk);
  }
  return held;
}

absl::flat_hash_map<JobId, ShardReport> ShardCore::NextReports() {
  absl::flat_hash_map<JobId, ShardReport> reports;
  for (auto& [id, installed] : jobs_) {
    ShardReport& report = reports[id.first];
    report.counters.Add(installed.job->counters());
    report.memory_bytes += installed.job->MemoryBytes();
    for (const proto::NodeClock& node : installed.job->NextNodeClocks()) {
      AddNodeClock(node, &report.nodes);
    }
  }
  return reports;
}

}  // namespace strata::server
