#include "server/daemon/server_daemon.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "common/control/session.h"
#include "common/counted.h"
#include "common/job/job.h"
#include "common/job/placement.h"
#include "common/job/trace_log.h"
#include "common/log.h"
#include "common/os/descriptors.h"
#include "common/os/process_use.h"

namespace strata::server {

using control::AddRefusal;
using control::AddResource;
using control::AddSessionResources;

namespace {

proto::BackupReport ReportOf(const BackupState& state) {
  proto::BackupReport report;
  report.set_shard(state.shard.value());
  report.set_generation(state.generation);
  if (state.waits_since < absl::InfiniteFuture()) {
    const int64_t waits = absl::ToInt64Milliseconds(absl::Now() - state.waits_since);
    report.set_waits_ms(static_cast<uint32_t>(std::clamp<int64_t>(waits, 1, UINT32_MAX)));
  }
  report.set_refusal(std::string(state.refusal.message()));
  report.set_chunks_missing(static_cast<uint32_t>(state.chunks_missing));
  report.set_is_next(state.is_next);
  return report;
}

}  // namespace

absl::Status ServerOptions::Validate() const {
  if (name.empty()) return absl::InvalidArgumentError("name: must not be empty");
  if (listen.empty()) return absl::InvalidArgumentError("listen: must not be empty");
  if (address.empty()) return absl::InvalidArgumentError("advertise: must not be empty");
  if (shards < 1 || shards > kShardsPerServerMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("shards: ", shards, " is not in 1 to ", kShardsPerServerMax));
  }
  if (port > 65535 || (port != 0 && port_last == 0 && port + shards - 1 > 65535)) {
    return absl::InvalidArgumentError(
        absl::StrCat("port: ", port, " and ", shards, " shards go beyond port 65535"));
  }
  if (port_last > 65535 || (port_last != 0 && (port == 0 || port_last < port + shards - 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat("port: ", port, "-", port_last, " has too few ports for ", shards, " shards"));
  }
  return limits.Validate();
}

absl::StatusOr<std::unique_ptr<ServerDaemon>> ServerDaemon::Create(
    ServerOptions options, ServerParts parts, std::function<void(const absl::Status&)> on_lost) {
  absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  return std::unique_ptr<ServerDaemon>(
      new ServerDaemon(std::move(options), std::move(parts), std::move(on_lost)));
}

ServerDaemon::ServerDaemon(ServerOptions options, ServerParts parts,
                           std::function<void(const absl::Status&)> on_lost)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      on_lost_(std::move(on_lost)),
      checkpoints_(std::make_unique<JobCheckpoints>(
          parts_.open_store,
          [this](const proto::CheckpointPart& part) {
            proto::DaemonMessage message;
            *message.mutable_checkpoint_part() = part;
            session_->Send(std::move(message));
          },
          [this](JobId job, ShardId shard, uint64_t clock) {
            for (auto& thread : shards_) thread->ReleaseCut(job, shard, clock);
          })),
      admission_(options_.limits) {}

ServerDaemon::~ServerDaemon() { Stop(); }

absl::Status ServerDaemon::StartShards() {
  uint32_t port = options_.port;
  for (uint32_t i = 0; i < options_.shards; ++i) {
    // Without a range, a port in use is an error.
    absl::Status status = StartShard(&port, options_.port_last == 0 ? port : options_.port_last);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ServerDaemon::StartShard(uint32_t* port, uint32_t last) {
  while (*port <= last) {
    ShardThread::Options shard;
    shard.listen = absl::StrCat("tcp://", options_.listen, ":", *port);
    shard.on_cut = [this](ShardCut cut) { checkpoints_->OnCut(std::move(cut)); };
    *port += options_.port == 0 ? 0 : 1;
    auto endpoint = parts_.make_endpoint();
    if (!endpoint.ok()) return endpoint.status();
    auto started = std::make_unique<ShardThread>(shard, *parts_.kernels, *std::move(endpoint));
    const absl::Status listens = started->Start();
    if (listens.ok()) shards_.push_back(std::move(started));
    if (!absl::IsAlreadyExists(listens) || options_.port_last == 0) return listens;
  }
  return absl::AlreadyExistsError(absl::StrCat("no port from ", options_.port, " to ", last,
                                               " is free for shard ", shards_.size(), " of ",
                                               options_.shards));
}

absl::Status ServerDaemon::Start() {
  absl::Status status =
      EnsureDescriptors("strata server", ServerDescriptors(options_.shards, options_.limits));
  if (status.ok()) status = StartShards();
  if (!status.ok()) return status;
  control::Session::Options session;
  session.coordinator = options_.coordinator;
  session.credentials = options_.credentials;
  session.connect_deadline = options_.connect_deadline;
  session.reconnect_deadline = options_.reconnect_deadline;
  session.registration.set_role(proto::SERVER);
  session.registration.set_name(options_.name);
  session.registration.set_address(options_.address);
  session.registration.set_host(options_.link.host);
  session.registration.set_link_bytes_per_s(options_.link.bytes_per_s);
  for (int port : ports()) session.registration.add_shard_ports(port);
  control::Session::Callbacks callbacks;
  callbacks.on_message = [this](const proto::CoordinatorMessage& message) { OnMessage(message); };
  callbacks.heartbeat = [this] {
    SendTraces();
    return MakeHeartbeat();
  };
  callbacks.running_jobs = [this] { return RunningJobs(); };
  callbacks.on_lost = on_lost_;
  session_ = control::Session::Create(std::move(session), std::move(callbacks));
  return session_->Start();
}

void ServerDaemon::Leave() {
  proto::DaemonMessage message;
  message.mutable_leaving();
  session_->Send(std::move(message));
}

void ServerDaemon::Stop() {
  if (session_ != nullptr) session_->Stop();
  checkpoints_->Stop();
  for (auto& shard : shards_) shard->Stop();
}

std::vector<int> ServerDaemon::ports() const {
  std::vector<int> ports;
  for (const auto& shard : shards_) ports.push_back(shard->port());
  return ports;
}

std::vector<uint32_t> ServerDaemon::RunningJobs() const {
  std::vector<uint32_t> running;
  for (const auto& [job, attempt] : jobs_) running.push_back(job);
  return running;
}

void ServerDaemon::OnMessage(const proto::CoordinatorMessage& message) {
  if (message.has_install_job()) {
    TakeIn(message.install_job());
  } else if (message.has_remove_job()) {
    Remove(message.remove_job().job_id());
  } else if (message.has_move_shard()) {
    MoveShard(message.move_shard());
  } else if (message.has_install_backup()) {
    InstallBackup(message.install_backup());
  } else if (message.has_remove_shard()) {
    RemoveShard(message.remove_shard());
  } else if (message.has_fill_next()) {
    FillNext(message.fill_next());
  } else if (message.has_change_view()) {
    ChangeView(message.change_view());
  }
  is_idle_ = jobs_.empty();
}

void ServerDaemon::TakeIn(const proto::InstallJob& install) {
  const proto::JobRecord& record = install.record();
  if (const auto here = jobs_.find(record.job_id()); here != jobs_.end()) {
    if (here->second > record.attempt()) return;
    // The command to remove it was lost.
    if (here->second < record.attempt()) Remove(record.job_id());
  }
  absl::Status status = Admit(install);
  if (status.ok()) status = BeginInstall(install);
  if (status.ok() && record.has_resume()) return Load(install);
  if (status.ok()) status = EndInstall(install);
  // An error of this server's placement does not mean that the checkpoint is damaged.
  if (!status.ok()) status = absl::FailedPreconditionError(status.message());
  TellInstalled(install, status);
  if (!status.ok()) Remove(record.job_id());
}

void ServerDaemon::TellInstalled(const proto::InstallJob& install, const absl::Status& status) {
  proto::DaemonMessage reply;
  proto::JobInstalled* installed = reply.mutable_job_installed();
  installed->set_job_id(install.record().job_id());
  installed->set_attempt(install.record().attempt());
  if (!status.ok()) installed->set_error(std::string(status.message()));
  installed->set_is_damaged(install.record().has_resume() && IsDamage(status));
  session_->Send(std::move(reply));
}

absl::Status ServerDaemon::Admit(const proto::InstallJob& install) {
  if (static_cast<size_t>(install.own_shards_size()) != shards_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("placement names ", install.own_shards_size(),
                                                   " shards of this server, it has ",
                                                   shards_.size()));
  }
  for (const proto::OwnBackup& backup : install.own_backups()) {
    if (backup.thread() < shards_.size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("placement names a second copy on shard ",
                                                   backup.thread(), " of this server, it has ",
                                                   shards_.size()));
  }
  absl::Status admitted = admission_.Admit(install);
  if (!admitted.ok()) return admitted;
  jobs_[install.record().job_id()] = install.record().attempt();
  if (IsTraced(install.record().job())) traced_.insert(install.record().job_id());
  checkpoints_->Begin(install.record());
  return absl::OkStatus();
}

absl::Status ServerDaemon::ForShards(
    const proto::InstallJob& install,
    absl::FunctionRef<absl::Status(ShardThread&, ShardId, ShardCopy)> call) {
  absl::Status status;
  for (size_t i = 0; status.ok() && i < shards_.size(); ++i) {
    const uint32_t own = install.own_shards(static_cast<int>(i));
    if (own != kNoShard) status = call(*shards_[i], ShardId(own), ShardCopy::kPrimary);
  }
  for (const proto::OwnBackup& backup : install.own_backups()) {
    if (!status.ok()) break;
    status = call(*shards_[backup.thread()], ShardId(backup.shard()), ShardCopy::kBackup);
  }
  return status;
}

absl::Status ServerDaemon::ForThreads(const proto::InstallJob& install,
                                      absl::FunctionRef<absl::Status(ShardThread&)> call) {
  std::set<ShardThread*> threads;
  absl::Status listed = ForShards(install, [&](ShardThread& thread, ShardId, ShardCopy) {
    threads.insert(&thread);
    return absl::OkStatus();
  });
  for (ShardThread* thread : threads) {
    if (listed.ok()) listed = call(*thread);
  }
  return listed;
}

absl::Status ServerDaemon::BeginInstall(const proto::InstallJob& install) {
  return ForShards(install, [&](ShardThread& thread, ShardId shard, ShardCopy copy) {
    return thread.BeginInstall(install.record(), shard, copy).status();
  });
}

absl::Status ServerDaemon::EndInstall(const proto::InstallJob& install) {
  absl::Status status = ForThreads(install, [&](ShardThread& thread) {
    return thread.EndInstall(JobId(install.record().job_id()));
  });
  if (!status.ok()) return status;
  LogInfo("job %u: installed on %s", install.record().job_id(), Counted(shards_.size(), "shard"));
  return absl::OkStatus();
}

void ServerDaemon::Load(const proto::InstallJob& install) {
  std::vector<ShardId> shards;
  for (const uint32_t shard : install.own_shards()) {
    if (shard != kNoShard) shards.emplace_back(shard);
  }
  for (const proto::OwnBackup& backup : install.own_backups()) shards.emplace_back(backup.shard());
  JobCheckpoints::LoadCalls calls;
  calls.take = [this, install](absl::Span<const ChunkImage> images) {
    return ForThreads(install, [&](ShardThread& thread) {
      return thread.InstallMore(JobId(install.record().job_id()), images);
    });
  };
  calls.finish = [this, install] { return EndInstall(install); };
  calls.tell = [this, install](const absl::Status& status) { TellInstalled(install, status); };
  checkpoints_->Load(install.record(), shards, std::move(calls));
}

void ServerDaemon::Remove(uint32_t job) {
  if (jobs_.erase(job) == 0) return;
  // The job's last counters: they are lost when it is removed.
  proto::DaemonMessage counts;
  *counts.mutable_heartbeat() = MakeHeartbeat();
  admission_.Release(JobId(job));
  session_->Send(std::move(counts));
  SendTraces();
  if (traced_.erase(job) > 0) trace_sender_.Send(TraceEnd(job), session_.get());
  for (auto& shard : shards_) {
    absl::Status status = shard->Remove(JobId(job));
    if (!status.ok()) LogWarning("job %u: %s", job, std::string(status.message()));
  }
  checkpoints_->End(JobId(job));  // once no shard cuts for it any more
  LogInfo("job %u: removed", job);
}

void ServerDaemon::SendTraces() {
  if (traced_.empty()) return;
  for (size_t i = 0; i < shards_.size(); ++i) {
    for (proto::TraceBatch& batch : shards_[i]->TakeTraces()) {
      batch.set_process(absl::StrCat("server ", options_.name, " shard ", i));
      trace_sender_.Send(std::move(batch), session_.get());
    }
  }
}

proto::Heartbeat ServerDaemon::MakeHeartbeat() {
  proto::Heartbeat heartbeat;
  uint64_t memory_bytes = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const std::vector<BackupState> backups = shards_[i]->BackupStates();
    for (const auto& [job, report] : shards_[i]->NextReports()) {
      const ShardCounters& counters = report.counters;
      proto::JobCounters* of_job = heartbeat.add_jobs();
      of_job->set_job_id(job.value());
      of_job->set_shard(static_cast<uint32_t>(i));
      proto::ShardCounters* out = of_job->mutable_counters();
      out->set_pushes(counters.pushes);
      out->set_answers(counters.answers);
      out->set_duplicates(counters.duplicates);
      out->set_refused(counters.refused);
      out->set_bytes_received(counters.bytes_received);
      out->set_bytes_sent(counters.bytes_sent);
      of_job->mutable_nodes()->Add(report.nodes.begin(), report.nodes.end());
      of_job->set_memory_bytes(report.memory_bytes);
      of_job->set_memory_limit_bytes(admission_.LimitOf(job, i));
      memory_bytes += report.memory_bytes;
      for (const BackupState& state : backups) {
        if (state.job == job) *of_job->add_backups() = ReportOf(state);
      }
    }
  }
  AddResources(memory_bytes, &heartbeat);
  AddRefusals(&heartbeat);
  return heartbeat;
}

void ServerDaemon::AddResources(uint64_t memory_bytes, proto::Heartbeat* heartbeat) {
  const ProcessUse process = MeasureUse();
  transport::EndpointUse connections;
  for (auto& shard : shards_) {
    const transport::EndpointUse use = shard->Use();
    connections.connections += use.connections;
    connections.connections_max += use.connections_max;
  }
  AddResource("file descriptors", process.descriptors, process.descriptors_max, heartbeat);
  AddResource("connections", connections.connections, connections.connections_max, heartbeat);
  AddResource("largest frame bytes", admission_.chunk_bytes_max(), kFramePayloadBytesMax,
              heartbeat);
  AddSessionResources(session_->use(), heartbeat);
  AddResource("memory bytes", memory_bytes, admission_.memory_limit_bytes(), heartbeat);
  AddResource("promised memory bytes", admission_.promised_bytes(), admission_.memory_limit_bytes(),
              heartbeat);
  AddResource("resident bytes", process.resident_bytes, 0, heartbeat);
}

void ServerDaemon::AddRefusals(proto::Heartbeat* heartbeat) {
  Refusals sum;
  for (auto& shard : shards_) {
    for (const auto& [cause, count] : shard->AllRefusals()) sum[cause] += count;
  }
  for (const auto& [cause, count] : sum) {
    if (count == 0) continue;
    AddRefusal(cause, count, heartbeat);
    heartbeat->mutable_refusals()->rbegin()->set_expected(IsExpected(cause));
  }
}

void ServerDaemon::MoveShard(const proto::MoveShard& move) {
  const auto here = jobs_.find(move.job_id());
  if (here == jobs_.end() || here->second != move.attempt()) return;
  const JobId job(move.job_id());
  const ShardId shard(move.shard());
  absl::Status moved = absl::NotFoundError("no thread here holds the shard");
  for (size_t i = 0; i < shards_.size() && absl::IsNotFound(moved); ++i) {
    moved = shards_[i]->Call([&](ShardCore& core, auto* actions) {
      return move.backup_endpoint().empty()
                 ? core.Promote(job, shard, move.generation(), actions)
                 : core.FillBackup(job, shard, move.generation(), move.backup_endpoint(),
                                   move.backup_is_whole(), actions);
    });
  }
  if (moved.ok()) {
    const std::string backup =
        move.backup_endpoint().empty() ? "no second copy"
        : move.backup_is_whole()
            ? absl::StrCat("its second copy at ", move.backup_endpoint())
            : absl::StrCat("a second copy to fill at ", move.backup_endpoint());
    return LogInfo("job %u: shard %u lies here in generation %u, with %s", move.job_id(),
                   move.shard(), move.generation(), backup);
  }
  TellNotMoved(move, moved);
}

// `asked`: a MoveShard or FillNext.
template <typename Message>
void ServerDaemon::TellNotMoved(const Message& asked, const absl::Status& why) {
  proto::DaemonMessage reply;
  proto::ShardNotMoved* not_moved = reply.mutable_shard_not_moved();
  not_moved->set_job_id(asked.job_id());
  not_moved->set_attempt(asked.attempt());
  not_moved->set_shard(asked.shard());
  not_moved->set_generation(asked.generation());
  not_moved->set_error(std::string(why.message()));
  session_->Send(std::move(reply));
}

void ServerDaemon::FillNext(const proto::FillNext& fill) {
  const auto here = jobs_.find(fill.job_id());
  if (here == jobs_.end() || here->second != fill.attempt()) return;
  absl::Status begun = absl::NotFoundError("no thread here holds the shard");
  for (size_t i = 0; i < shards_.size() && absl::IsNotFound(begun); ++i) {
    begun = shards_[i]->Call([&](ShardCore& core, auto* actions) {
      return core.FillNext(JobId(fill.job_id()), ShardId(fill.shard()), fill.generation(),
                           fill.endpoint(), actions);
    });
  }
  if (!begun.ok() && !fill.endpoint().empty()) return TellNotMoved(fill, begun);
  if (fill.endpoint().empty()) return;
  LogInfo("job %u: shard %u is filled from here at %s, in generation %u", fill.job_id(),
          fill.shard(), fill.endpoint(), fill.generation());
}

void ServerDaemon::InstallBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const auto here = jobs_.find(record.job_id());
  if (here != jobs_.end() && here->second > record.attempt()) return;
  // The command to remove it was lost.
  if (here != jobs_.end() && here->second < record.attempt()) Remove(record.job_id());
  const ShardId shard(install.backup().shard());
  proto::DaemonMessage reply;
  proto::BackupInstalled* installed = reply.mutable_backup_installed();
  installed->set_job_id(record.job_id());
  installed->set_attempt(record.attempt());
  installed->set_shard(install.backup().shard());
  installed->set_generation(ShardGeneration(record.placement(), shard));
  const absl::Status taken = TakeBackup(install);
  if (taken.ok()) {
    LogInfo("job %u: shard %u is to have its second copy here", record.job_id(), shard.value());
  } else {
    installed->set_error(std::string(taken.message()));
    Forget(JobId(record.job_id()), shard, installed->generation());
  }
  session_->Send(std::move(reply));
}

absl::Status ServerDaemon::TakeBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const proto::OwnBackup& backup = install.backup();
  const JobId job(record.job_id());
  const ShardId shard(backup.shard());
  if (backup.thread() >= shards_.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("shard %d of this server is to hold a second copy, it has %d",
                        backup.thread(), shards_.size()));
  }
  const uint32_t generation = ShardGeneration(record.placement(), shard);
  for (auto& thread : shards_) {
    absl::Status removed = thread->Call([&](ShardCore& core, auto* actions) {
      core.RemoveShard(job, shard, generation, actions);
      return absl::OkStatus();
    });
    if (!removed.ok()) return removed;
  }
  if (absl::Status admitted = admission_.AdmitBackup(install); !admitted.ok()) return admitted;
  if (!jobs_.contains(record.job_id())) {
    jobs_[record.job_id()] = record.attempt();
    checkpoints_->Begin(record);
  }
  return shards_[backup.thread()]->BeginInstall(record, shard, ShardCopy::kEmptyBackup).status();
}

void ServerDaemon::RemoveShard(const proto::RemoveShard& remove) {
  const auto here = jobs_.find(remove.job_id());
  if (here == jobs_.end() || here->second != remove.attempt()) return;
  Forget(JobId(remove.job_id()), ShardId(remove.shard()), remove.generation());
}

void ServerDaemon::ChangeView(const proto::ViewChange& change) {
  const auto here = jobs_.find(change.job_id());
  if (here != jobs_.end() && here->second != change.attempt()) return;
  absl::Status changed = absl::NotFoundError("the job is not here");
  for (const auto& thread : shards_) {
    const absl::Status on_thread =
        thread->Call([&](ShardCore& core, auto*) { return core.ChangeView(change); });
    if (absl::IsNotFound(on_thread)) continue;
    changed = on_thread;
    if (!changed.ok()) break;
  }
  if (changed.ok()) {
    LogInfo("job %u: other nodes take part from clock %u on (change %u)", change.job_id(),
            change.at_clock(), change.number());
  }
  proto::DaemonMessage reply;
  proto::ViewInstalled* const installed = reply.mutable_view_installed();
  installed->set_job_id(change.job_id());
  installed->set_attempt(change.attempt());
  installed->set_number(change.number());
  if (!changed.ok()) installed->set_error(std::string(changed.message()));
  session_->Send(std::move(reply));
}

void ServerDaemon::Forget(JobId job, ShardId shard, uint32_t generation) {
  bool is_here = false;
  for (auto& thread : shards_) {
    const auto remove = [&](ShardCore& core, auto* actions) {
      if (core.RemoveShard(job, shard, generation, actions)) is_here = true;
      return absl::OkStatus();
    };
    thread->Call(remove).IgnoreError();  // a stopped one holds nothing
  }
  if (is_here) return;
  admission_.ReleaseShard(job, shard);
  if (!admission_.Knows(job)) Remove(job.value());
}

}  // namespace strata::server
