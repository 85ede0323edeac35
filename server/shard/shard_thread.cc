#include "server/shard/shard_thread.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/job/job_keys.h"
#include "common/log.h"
#include "common/transport/endpoint.h"

namespace strata::server {
namespace {

// Images of a checkpoint are installed a few at a time, so that other jobs and heartbeats are not
// delayed: chunks are of 16 MiB at most.
constexpr size_t kChunksPerTurn = 4;
constexpr absl::Duration kIdlePoll = absl::Seconds(1);
// While frames wait for room in a peer's queue.
constexpr absl::Duration kBusyPoll = absl::Milliseconds(2);

// A misbehaving peer must not fill the disk with log lines.
bool IsWorthLogging(uint64_t count) { return count <= 16 || (count & (count - 1)) == 0; }

}  // namespace

ShardThread::ShardThread(Options options, const kernels::Kernels& kernels,
                         std::unique_ptr<transport::Endpoint> endpoint)
    : options_(std::move(options)),
      endpoint_(std::move(endpoint)),
      queue_([this] { endpoint_->Wake(); }),
      core_(
          kernels, [this] { return endpoint_->NewMemory(); }, [] { return absl::Now(); }),
      backlog_(endpoint_.get(), options_.waiting_frames_max) {}

ShardThread::~ShardThread() { Stop(); }

absl::Status ShardThread::Start() {
  absl::StatusOr<int> port = endpoint_->Listen(options_.listen);
  if (!port.ok()) return port.status();
  port_ = *port;
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void ShardThread::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  endpoint_->Wake();
  thread_.join();
}

absl::Status ShardThread::RunOnThread(absl::AnyInvocable<void()> closure) {
  if (!thread_.joinable()) return absl::FailedPreconditionError("the shard is not running");
  absl::Notification done;
  absl::Status posted = queue_.Post([&] {
    ReleaseCuts();
    closure();
    done.Notify();
  });
  // Run() runs everything that was posted, even at its end.
  if (posted.ok()) done.WaitForNotification();
  return posted;
}

template <typename Ask>
std::invoke_result_t<Ask> ShardThread::AskOnThread(Ask ask) {
  std::invoke_result_t<Ask> answer;
  RunOnThread([&] { answer = ask(); }).IgnoreError();
  return answer;
}

absl::Status ShardThread::Call(Command command) {
  absl::Status done;
  absl::Status ran = RunOnThread([&] {
    done = command(core_, &actions_);
    Execute();
  });
  return ran.ok() ? done : ran;
}

absl::Status ShardThread::Install(const proto::JobRecord& record, ShardId own_shard,
                                  ShardCopy copy) {
  const absl::StatusOr<bool> begun = BeginInstall(record, own_shard, copy);
  return begun.ok() ? EndInstall(JobId(record.job_id())) : begun.status();
}

absl::StatusOr<bool> ShardThread::BeginInstall(const proto::JobRecord& record, ShardId own_shard,
                                               ShardCopy copy) {
  const auto shard = static_cast<int>(own_shard.value());
  const auto& endpoints = copy == ShardCopy::kPrimary ? record.placement().shard_endpoints()
                                                      : record.placement().backup_endpoints();
  const absl::StatusOr<std::optional<seal::JobKeys>> keys =
      KeysOf(record, shard < endpoints.size() ? endpoints[shard] : "");
  if (!keys.ok()) return keys.status();
  const JobId job(record.job_id());
  absl::StatusOr<bool> begun = false;
  absl::Status ran = RunOnThread([&] {
    begun = core_.BeginInstall(record, own_shard, copy);
    if (!begun.ok() || !keys->has_value()) return;
    const absl::Status is_protected = endpoint_->Protect(job, **keys);
    if (is_protected.ok()) return;
    begun = is_protected;
    if (copy == ShardCopy::kEmptyBackup) {
      core_.RemoveShard(job, own_shard, UINT32_MAX, &actions_);
    } else {
      core_.Remove(job, &actions_);
    }
    Execute();
  });
  return ran.ok() ? begun : ran;
}

absl::Status ShardThread::InstallMore(JobId job, absl::Span<const ChunkImage> images) {
  absl::Status taken;
  for (; taken.ok() && !images.empty();
       images.remove_prefix(std::min(images.size(), kChunksPerTurn))) {
    const absl::Span<const ChunkImage> turn = images.subspan(0, kChunksPerTurn);
    taken = Call([&](ShardCore& core, auto*) { return core.InstallMore(job, turn); });
  }
  return taken;
}

absl::Status ShardThread::InstallMore(JobId job, const RowsImage& rows) {
  return Call([&](ShardCore& core, auto*) { return core.InstallMore(job, rows); });
}

absl::Status ShardThread::EndInstall(JobId job) {
  return Call([&](ShardCore& core, auto*) { return core.EndInstall(job); });
}

absl::Status ShardThread::Remove(JobId job) {
  return RunOnThread([&] {
    core_.Remove(job, &actions_);
    Execute();
    HandOverCuts();
    endpoint_->Forget(job);
  });
}

absl::flat_hash_map<JobId, ShardCounters> ShardThread::Counters() {
  return AskOnThread([&] { return core_.Counters(); });
}

absl::flat_hash_map<JobId, ShardReport> ShardThread::NextReports() {
  return AskOnThread([&] { return core_.NextReports(); });
}

std::vector<proto::TraceBatch> ShardThread::TakeTraces() {
  return AskOnThread([&] { return core_.TakeTraces(); });
}

transport::EndpointUse ShardThread::Use() {
  return AskOnThread([&] { return endpoint_->use(); });
}

std::vector<BackupState> ShardThread::BackupStates() {
  return AskOnThread([&] { return core_.BackupStates(); });
}

Refusals ShardThread::AllRefusals() {
  return AskOnThread([&] {
    Refusals refusals = core_.refusals();
    refusals.merge(transport::RefusalsOf(endpoint_->use()));
    return refusals;
  });
}

void ShardThread::Release(const HeldCut& cut) {
  bool is_first = false;
  {
    absl::MutexLock lock(&mutex_);
    is_first = released_.empty();
    released_.push_back(cut);
  }
  if (is_first) endpoint_->Wake();
}

void ShardThread::ReleaseCuts() {
  std::vector<HeldCut> cuts;
  {
    absl::MutexLock lock(&mutex_);
    cuts.swap(released_);
  }
  for (const HeldCut& cut : cuts) {
    if (cut.clock) {
      core_.ReleaseCut(cut.job, cut.shard, *cut.clock);
    } else {
      core_.ReleaseRows(cut.job, cut.shard);
    }
  }
}

void ShardThread::Run() {
  std::vector<transport::Event> events;
  while (!stopping_) {
    events.clear();
    endpoint_->Poll(PollTimeout(), &events);
    ReleaseCuts();
    queue_.RunAll();
    core_.OnTime(absl::Now(), &actions_);
    Execute();
    HandOverCuts();
    for (transport::Event& event : events) OnEvent(std::move(event));
    HandOverCuts();
    backlog_.SendWaiting();
  }
  queue_.Close();
  queue_.RunAll();
}

absl::Duration ShardThread::PollTimeout() const {
  const absl::Duration most = backlog_.empty() ? kIdlePoll : kBusyPoll;
  const absl::Time due = core_.deadline();
  if (due == absl::InfiniteFuture()) return most;
  return std::clamp(due - absl::Now(), absl::ZeroDuration(), most);
}

void ShardThread::OnEvent(transport::Event event) {
  switch (event.kind) {
    case transport::Event::Kind::kFrame:
      core_.OnFrame(event.connection, std::move(event.frame), absl::Now(), &actions_);
      break;
    case transport::Event::Kind::kMalformed:
      if (IsWorthLogging(++refused_)) {
        LogWarning("port %d: refused a frame: %s (%d refused)", port_,
                   std::string(event.error.message()), refused_);
      }
      // The endpoint counts frames with an invalid seal; they get no answer.
      if (!absl::IsPermissionDenied(event.error)) core_.OnMalformed(event.connection, &actions_);
      break;
    case transport::Event::Kind::kDisconnected:
      backlog_.Forget(event.connection);
      core_.OnDisconnected(event.connection, event.error, absl::Now(), &actions_);
      break;
  }
  Execute();
}

void ShardThread::Execute() {
  while (!actions_.empty()) {
    for (ShardAction& action : std::exchange(actions_, {})) Execute(action);
  }
}

void ShardThread::Execute(const ShardAction& action) {
  if (action.kind == ShardAction::Kind::kClose) {
    backlog_.Forget(action.connection);
    return endpoint_->Close(action.connection);
  }
  if (action.kind == ShardAction::Kind::kConnect) {
    const absl::StatusOr<transport::ConnectionId> connection =
        endpoint_->ConnectFor(action.address, action.job);
    if (connection.ok()) return core_.OnConnected(action, *connection, absl::Now(), &actions_);
    return core_.OnConnectFailed(action, connection.status(), absl::Now(), &actions_);
  }
  if (action.frame.header.op == wire::Op::kHelloOk) {
    endpoint_->Admit(action.connection, core_.MemoryOf(action.connection));
  }
  Send(action.connection, action.frame);
}

void ShardThread::HandOverCuts() {
  if (!core_.has_cuts()) return;
  for (ShardCut& cut : core_.TakeCuts()) {
    if (options_.on_cut) options_.on_cut(std::move(cut));
  }
  for (ShardRowsPiece& piece : core_.TakeRowPieces()) {
    if (options_.on_rows) options_.on_rows(std::move(piece));
  }
}

void ShardThread::Send(transport::ConnectionId connection, const wire::Frame& frame) {
  if (frame.header.op == wire::Op::kError && IsWorthLogging(++refused_)) {
    LogWarning("port %d: refused a request: %s (%d refused)", port_, wire::Describe(frame.header),
               refused_);
  }
  const wire::Header& header = frame.header;
  TraceSpan span(header.op == wire::Op::kAnswer ? core_.TraceOf(JobId(header.job)) : nullptr,
                 proto::TraceEvent::ANSWER, ChunkId(header.chunk), header.clock, header.node);
  if (backlog_.Send(connection, frame) == FrameBacklog::Result::kDropped) {
    LogWarning("port %d: dropped an answer, its receiver is too slow: %s", port_,
               wire::Describe(frame.header));
  }
}

}  // namespace strata::server
