#include "server/shard/shard_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/job/job.h"
#include "server/shard/frames/reply.h"
#include "server/shard/shard_job.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

ShardCore::ShardCore(const kernels::Kernels& kernels, NewMemory new_memory,
                     std::function<absl::Time()> trace_clock)
    : kernels_(kernels), new_memory_(std::move(new_memory)), trace_clock_(std::move(trace_clock)) {}
ShardCore::~ShardCore() = default;

absl::Status ShardCore::Install(const proto::JobRecord& record, ShardId own_shard,
                                absl::Span<const ChunkImage> images) {
  const absl::StatusOr<bool> installed = BeginInstall(record, own_shard);
  if (!installed.ok() || *installed) return installed.status();
  const JobId job(record.job_id());
  absl::Status taken = InstallMore(job, images);
  return taken.ok() ? EndInstall(job) : taken;
}

absl::StatusOr<bool> ShardCore::BeginInstall(const proto::JobRecord& record, ShardId own_shard) {
  const JobId id(record.job_id());
  std::string text = absl::StrFormat("%d ", own_shard.value()) + record.SerializeAsString();
  for (const auto* jobs : {&jobs_, &installing_}) {
    const auto known = jobs->find(id);
    if (known == jobs->end()) continue;
    if (known->second.record == text) return jobs == &jobs_;
    return absl::AlreadyExistsError(
        absl::StrFormat("job %d is installed with another record", id.value()));
  }
  absl::StatusOr<ShardPlan> plan = MakeShardPlan(record, own_shard);
  if (!plan.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("job %d: %s", id.value(), std::string(plan.status().message())));
  }
  std::unique_ptr<TraceLog> trace;
  if (trace_clock_) trace = TraceLog::Create(record.job(), {.now = trace_clock_});
  Installed made;
  if (new_memory_) made.memory = new_memory_();
  made.pool = std::make_unique<BufferPool>(BufferPool::kRetainedBytesMax, made.memory);
  made.job = std::make_unique<ShardJob>(*std::move(plan), kernels_, *made.pool, &scratch_,
                                        &refusals_, &cuts_, std::move(trace));
  made.record = std::move(text);
  if (record.has_resume()) {
    installing_[id] = std::move(made);
    return false;
  }
  Add(id, std::move(made));
  return true;
}

absl::Status ShardCore::InstallMore(JobId id, absl::Span<const ChunkImage> images) {
  return Advance(id, [&](ShardJob& job) { return job.Restore(images); });
}

absl::Status ShardCore::EndInstall(JobId id) {
  if (jobs_.contains(id)) return absl::OkStatus();
  absl::Status whole = Advance(id, [](ShardJob& job) { return job.CheckRestored(); });
  if (!whole.ok()) return whole;
  auto made = installing_.extract(id);
  Add(id, std::move(made.mapped()));
  return absl::OkStatus();
}

absl::Status ShardCore::Advance(JobId id, absl::FunctionRef<absl::Status(ShardJob&)> call) {
  const auto found = installing_.find(id);
  if (found == installing_.end()) {
    return absl::CancelledError(absl::StrFormat("job %d was removed", id.value()));
  }
  const absl::Status status = call(*found->second.job);
  if (status.ok()) return status;
  installing_.erase(found);
  return absl::InvalidArgumentError(absl::StrFormat("job %d: %s", id.value(), status.message()));
}

void ShardCore::Add(JobId id, Installed installed) {
  if (installed.job->trace() != nullptr) ++traced_;
  jobs_[id] = std::move(installed);
}

std::shared_ptr<BlockSource> ShardCore::MemoryOf(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.memory;
}

void ShardCore::LetGoOf(JobId job, ShardId shard, uint64_t clock) {
  const auto found = jobs_.find(job);
  if (found != jobs_.end()) found->second.job->LetGoOf(shard, clock);
}

void ShardCore::Remove(JobId job, std::vector<ShardAction>* actions) {
  installing_.erase(job);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  for (const transport::ConnectionId connection : found->second.job->Connections()) {
    bound_.erase(connection);
    actions->push_back({ShardAction::Kind::kClose, connection, {}});
  }
  if (found->second.job->trace() != nullptr) --traced_;
  jobs_.erase(found);
}

void ShardCore::OnFrame(transport::ConnectionId connection, wire::Frame frame, absl::Time now,
                        std::vector<ShardAction>* actions) {
  if (frame.header.op == wire::Op::kHello) return OnHello(connection, frame, actions);
  const auto bound = bound_.find(connection);
  if (bound == bound_.end()) {
    return Refuse(connection, frame, wire::ErrorCode::kNoHello, "HELLO comes first", actions);
  }
  jobs_.at(bound->second).job->OnFrame(connection, frame, now, actions);
}

void ShardCore::OnTime(absl::Time now, std::vector<ShardAction>* actions) {
  for (auto& [id, installed] : jobs_) installed.job->OnTime(now, actions);
}

absl::Time ShardCore::deadline() const {
  absl::Time due = absl::InfiniteFuture();
  for (const auto& [id, installed] : jobs_) due = std::min(due, installed.job->deadline());
  return due;
}

void ShardCore::OnHello(transport::ConnectionId connection, const wire::Frame& frame,
                        std::vector<ShardAction>* actions) {
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
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) {
    return Refuse(connection, frame, wire::ErrorCode::kWrongJob,
                  absl::StrFormat("job %d is not here", id.value()), actions);
  }
  if (const auto bound = bound_.find(connection); bound != bound_.end() && bound->second != id) {
    return Refuse(connection, frame, wire::ErrorCode::kWrongJob, "bound to another job", actions);
  }
  if (job->second.job->OnHello(connection, frame, hello, actions)) bound_[connection] = id;
}

void ShardCore::OnMalformed(transport::ConnectionId connection, std::vector<ShardAction>* actions) {
  Refuse(connection, {}, wire::ErrorCode::kMalformed, "", actions);
}

void ShardCore::Refuse(transport::ConnectionId connection, const wire::Frame& frame,
                       wire::ErrorCode code, const std::string& reason,
                       std::vector<ShardAction>* actions) {
  if (const auto bound = bound_.find(connection); bound != bound_.end()) {
    return jobs_.at(bound->second).job->Refuse(connection, frame, code, reason, actions);
  }
  ++refused_;
  ++refusals_[RefusalCause(code, Sender::kStranger)];
  actions->push_back({ShardAction::Kind::kSend, connection,
                      ErrorReply(frame.header, frame.payload.size(), code, reason)});
}

void ShardCore::OnDisconnected(transport::ConnectionId connection) {
  const auto bound = bound_.find(connection);
  if (bound == bound_.end()) return;
  jobs_.at(bound->second).job->OnDisconnected(connection);
  bound_.erase(bound);
}

absl::flat_hash_map<JobId, ShardCounters> ShardCore::Counters() const {
  absl::flat_hash_map<JobId, ShardCounters> counters;
  for (const auto& [id, installed] : jobs_) counters[id] = installed.job->counters();
  return counters;
}

TraceLog* ShardCore::TraceOf(JobId job) {
  if (traced_ == 0) return nullptr;
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.job->trace();
}

std::vector<proto::TraceBatch> ShardCore::TakeTraces() {
  std::vector<proto::TraceBatch> batches;
  for (auto& [id, installed] : jobs_) {
    TraceLog* const log = installed.job->trace();
    while (log != nullptr && log->has_news()) {
      batches.push_back(log->TakeBatch());
      batches.back().set_job_id(id.value());
    }
  }
  return batches;
}

size_t ShardCore::HeldSums(JobId job, ChunkId chunk) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : found->second.job->HeldSums(chunk);
}

absl::flat_hash_map<JobId, ShardReport> ShardCore::NextReports() {
  absl::flat_hash_map<JobId, ShardReport> reports;
  for (auto& [id, installed] : jobs_) {
    reports[id] = {.counters = installed.job->counters(),
                   .nodes = installed.job->NextNodeClocks(),
                   .memory_bytes = installed.job->MemoryBytes()};
  }
  return reports;
}

}  // namespace strata::server
