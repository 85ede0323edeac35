#include "server/coordinator/core/coordinator_core.h"

#include <xxhash.h>

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/log.h"
#include "common/require.h"
#include "common/trace/trace_log.h"

namespace strata::server {
namespace {

// The job that the whole message is about; none: it is about the daemon.
std::optional<uint32_t> ConcernedJob(const proto::DaemonMessage& message) {
  switch (message.message_case()) {
    case proto::DaemonMessage::kJobInstalled:
      return message.job_installed().job_id();
    case proto::DaemonMessage::kNodeReady:
      return message.node_ready().job_id();
    case proto::DaemonMessage::kLinkMeasured:
      return message.link_measured().job_id();
    case proto::DaemonMessage::kNodeFinished:
      return message.node_finished().job_id();
    case proto::DaemonMessage::kNodeFailed:
      return message.node_failed().job_id();
    case proto::DaemonMessage::kRankReport:
      return message.rank_report().job_id();
    case proto::DaemonMessage::kTrace:
      return message.trace().job_id();
    case proto::DaemonMessage::kCheckpointPart:
      return message.checkpoint_part().job_id();
    case proto::DaemonMessage::kShardNotMoved:
      return message.shard_not_moved().job_id();
    case proto::DaemonMessage::kBackupInstalled:
      return message.backup_installed().job_id();
    case proto::DaemonMessage::kViewInstalled:
      return message.view_installed().job_id();
    case proto::DaemonMessage::kViewPromised:
      return message.view_promised().job_id();
    case proto::DaemonMessage::kRingStopped:
      return message.ring_stopped().job_id();
    default:
      return std::nullopt;
  }
}

}  // namespace

CoordinatorCore::CoordinatorCore(Options options, const std::string& cluster_id,
                                 CoordinatorActions* actions)
    : options_(options),
      cluster_id_(cluster_id),
      actions_(actions),
      membership_(options.membership, cluster_id),
      reachability_(options.reachability, &membership_),
      jobs_(options.jobs, XXH3_64bits(cluster_id.data(), cluster_id.size()), &membership_,
            &reachability_, actions),
      traces_([this](JobId job) {
        const JobEntry* entry = jobs_.Find(job);
        return entry == nullptr || entry->ended();
      }) {}

void CoordinatorCore::Restore(const std::vector<proto::StoredJob>& jobs, uint32_t next_job_id,
                              const std::vector<SeenRegistrations::Entry>& seen, absl::Time now) {
  STRATA_REQUIRE(ticked_at_ == absl::InfiniteFuture() && newcomers_.empty());
  ticked_at_ = now;
  membership_.seen().Restore(seen);
  jobs_.Restore(jobs, next_job_id, /*is_restart=*/next_job_id > 1 || !seen.empty(), now);
}

void CoordinatorCore::SaveSeen() {
  const std::vector<SeenRegistrations::Entry> unsaved = membership_.seen().Unsaved();
  if (unsaved.empty()) return;
  const absl::Status saved = actions_->PersistSeen(unsaved);
  if (saved.ok()) membership_.seen().Saved();
  if (!saved.ok() && seen_is_saved_) {
    LogError("registrations are not saved: %s", saved.ToString());
  }
  seen_is_saved_ = saved.ok();
}

void CoordinatorCore::OnConnected(SessionId session, absl::Time now) {
  newcomers_.try_emplace(session, now);
}

void CoordinatorCore::RefuseNewcomer(SessionId session, const std::string& cause) {
  if (newcomers_.erase(session) > 0) ++refusals_[cause];
}

bool CoordinatorCore::Concerns(const std::string& daemon, uint32_t job) {
  const JobTable::Part part = jobs_.PartOf(JobId(job), daemon);
  // Last words of one that was just left come late: they change nothing, and are no fault.
  if (part == JobTable::Part::kNever) ++refusals_["about a job of other daemons"];
  return part == JobTable::Part::kHas;
}

void CoordinatorCore::OnMessage(SessionId session, const proto::DaemonMessage& message,
                                absl::Time now) {
  if (message.has_register_()) return OnRegister(session, message.register_(), now);
  const std::string daemon = membership_.Heard(session, now);
  if (daemon.empty()) {
    RefuseNewcomer(session, "before Register");
    return actions_->Close(session);  // it may register anew
  }
  if (const std::optional<uint32_t> job = ConcernedJob(message); job && !Concerns(daemon, *job))
    return;
  switch (message.message_case()) {
    case proto::DaemonMessage::kHeartbeat:
      return OnHeartbeat(daemon, message.heartbeat(), now);
    case proto::DaemonMessage::kJobInstalled:
      return jobs_.OnJobInstalled(daemon, message.job_installed(), now);
    case proto::DaemonMessage::kNodeReady:
      return jobs_.OnNodeReady(daemon, message.node_ready(), now);
    case proto::DaemonMessage::kLinkMeasured:
      return jobs_.OnLinkMeasured(daemon, message.link_measured(), now);
    case proto::DaemonMessage::kNodeFinished:
      return jobs_.OnNodeFinished(daemon, message.node_finished(), now);
    case proto::DaemonMessage::kNodeFailed:
      return jobs_.OnNodeFailed(daemon, message.node_failed(), now);
    case proto::DaemonMessage::kRankReport:
      return jobs_.OnRankReport(daemon, message.rank_report(), now);
    case proto::DaemonMessage::kPeersTried:
      if (reachability_.OnPeersTried(daemon, message.peers_tried(), now)) jobs_.StartQueued(now);
      return;
    case proto::DaemonMessage::kTrace:
      return OnTrace(daemon, message.trace());
    case proto::DaemonMessage::kCheckpointPart:
      return jobs_.OnCheckpointPart(daemon, message.checkpoint_part(), now);
    case proto::DaemonMessage::kShardNotMoved:
      return jobs_.OnShardNotMoved(daemon, message.shard_not_moved(), now);
    case proto::DaemonMessage::kBackupInstalled:
      return jobs_.OnBackupInstalled(daemon, message.backup_installed(), now);
    case proto::DaemonMessage::kViewInstalled:
      return jobs_.OnViewInstalled(daemon, message.view_installed(), now);
    case proto::DaemonMessage::kViewPromised:
      return jobs_.OnViewPromised(daemon, message.view_promised(), now);
    case proto::DaemonMessage::kRingStopped:
      return jobs_.OnRingStopped(daemon, message.ring_stopped(), now);
    case proto::DaemonMessage::kLeaving:
      return OnLeaving(daemon, now);
    case proto::DaemonMessage::kRegister:
    case proto::DaemonMessage::kRenew:  // the service answers it
    case proto::DaemonMessage::MESSAGE_NOT_SET:
      return;
  }
}

void CoordinatorCore::OnTrace(const std::string& daemon, const proto::TraceBatch& batch) {
  const JobEntry* entry = jobs_.Find(JobId(batch.job_id()));
  const bool asked_for = entry != nullptr && IsTraced(entry->job());
  if (!asked_for || batch.process().size() > kTraceNameBytesMax ||
      static_cast<size_t>(batch.events_size()) > kTraceEventsPerBatchMax) {
    ++refusals_["trace that was not asked for"];
    return;
  }
  proto::TraceBatch named = batch;
  named.set_host(daemon);
  traces_.Add(named);
}

bool CoordinatorCore::MayHaveMoreFrom(JobId job, const std::string& daemon) const {
  const Daemon* found = membership_.Find(daemon);
  return found != nullptr && found->alive && !traces_.HasAllFrom(job, daemon);
}

bool CoordinatorCore::IsTraceComplete(const JobEntry& entry, absl::Time now) const {
  if (!entry.ended()) return false;
  if (!entry.stored.training()) return true;  // nor has it ever
  if (now - absl::FromUnixMillis(entry.stored.status().ended_ms()) >= options_.trace_patience) {
    return true;
  }
  for (const JobNode& node : entry.nodes) {
    if (MayHaveMoreFrom(entry.id(), node.daemon)) return false;
  }
  for (const JobServer& server : entry.servers) {
    if (MayHaveMoreFrom(entry.id(), server.daemon)) return false;
  }
  return true;
}

absl::StatusOr<CoordinatorCore::TraceFound> CoordinatorCore::GetTrace(JobId job,
                                                                      absl::Time now) const {
  const JobEntry* entry = jobs_.Find(job);
  if (entry == nullptr) return NoSuchJob(job);
  if (!IsTraced(entry->job())) {
    return absl::FailedPreconditionError(
        absl::StrFormat("job %d (%s) has no trace: it was submitted without --trace", job.value(),
                        entry->job().name()));
  }
  return TraceFound{.batches = traces_.Find(job), .complete = IsTraceComplete(*entry, now)};
}

void CoordinatorCore::OnHeartbeat(const std::string& daemon, const proto::Heartbeat& heartbeat,
                                  absl::Time now) {
  membership_.Report(daemon, heartbeat);
  jobs_.TakeMemory(daemon, heartbeat);
  for (const proto::JobCounters& counters : heartbeat.jobs()) {
    if (Concerns(daemon, counters.job_id())) jobs_.OnCounters(daemon, counters, now);
  }
  for (const proto::NodeActivity& activity : heartbeat.nodes()) {
    if (Concerns(daemon, activity.job_id())) jobs_.OnNodeActivity(daemon, activity, now);
  }
}

void CoordinatorCore::OnRegister(SessionId session, const proto::Register& registration,
                                 absl::Time now) {
  proto::CoordinatorMessage reply;
  const absl::StatusOr<Membership::Joined> joined =
      membership_.Register(session, registration, now);
  if (!joined.ok()) {
    newcomers_.erase(session);
    const bool seen = absl::IsAlreadyExists(joined.status());
    ++refusals_[seen ? "registration seen before" : "rejected registration"];
    LogWarning("refused \"%s\" at %s: %s", registration.name(), registration.address(),
               joined.status().message());
    reply.mutable_rejected()->set_reason(std::string(joined.status().message()));
    actions_->Send(session, reply);
    actions_->Close(session);
    return;
  }
  newcomers_.erase(session);
  if (joined->replaced != SessionId() && joined->replaced != session) {
    actions_->Close(joined->replaced);
  }
  LogInfo("%s %s at %s has %s", proto::Role_Name(registration.role()), registration.name(),
          registration.address(), joined->returned ? "returned" : "joined");
  reply.mutable_registered()->set_cluster_id(cluster_id_);
  reply.mutable_registered()->set_heartbeat_ms(absl::ToInt64Milliseconds(options_.heartbeat));
  actions_->Send(session, reply);  // before all else that is said to it
  reachability_.Forget(registration.name());
  TryPeers(now);
  TakeLost(joined->lost, now);  // jobs that may start now know that it is being tried
  const Daemon& daemon = *membership_.Find(registration.name());
  if (registration.role() == proto::SERVER) actions_->LearnPorts(daemon);
  jobs_.OnJoined(daemon, joined->returned, now);
}

void CoordinatorCore::OnDisconnected(SessionId session, absl::Time now) {
  RefuseNewcomer(session, "session without Register");
  const Daemon* const daemon = membership_.Disconnected(session, now);
  if (daemon != nullptr && daemon->registration.role() == proto::SERVER) {
    actions_->WatchPorts(*daemon);
  }
}

void CoordinatorCore::OnServerEnded(const std::string& name, uint64_t daemon_id, absl::Time now) {
  membership_.Ended(name, daemon_id);
  LoseDaemons(now);
}

void CoordinatorCore::ExcuseStall(absl::Time now) {
  const absl::Duration gap = now - ticked_at_;
  ticked_at_ = now;
  if (gap < options_.stalled_after) return;
  LogWarning("the coordinator stood still for %s", absl::FormatDuration(gap));
  membership_.Excuse(gap, now);
  for (auto& [session, since] : newcomers_) since = Excused(since, gap, now);
  jobs_.Excuse(gap, now);
}

void CoordinatorCore::Tick(absl::Time now) {
  ExcuseStall(now);
  LoseDaemons(now);
  TryPeers(now);
  EndSilentNewcomers(now);
  SaveSeen();
  jobs_.Tick(now);
}

void CoordinatorCore::LoseDaemons(absl::Time now) {
  const std::vector<Membership::Lost> lost = membership_.Tick(now);
  // Jobs that the loss of one lets begin go by what those that are lost, too, have said before.
  TakeLost(lost, now);
  for (const Membership::Lost& daemon : lost) reachability_.Forget(daemon.name);
}

void CoordinatorCore::TryPeers(absl::Time now) {
  for (const Reachability::Try& ask : reachability_.Due(now)) {
    proto::CoordinatorMessage message;
    *message.mutable_try_peers() = ask.peers;
    actions_->Send(ask.session, message);
  }
}

void CoordinatorCore::EndSilentNewcomers(absl::Time now) {
  std::vector<SessionId> late;
  for (const auto& [session, since] : newcomers_) {
    if (now - since >= options_.register_within) late.push_back(session);
  }
  for (const SessionId session : late) {
    RefuseNewcomer(session, "session without Register");
    actions_->Close(session);
  }
}

void CoordinatorCore::TakeLost(const std::vector<Membership::Lost>& lost, absl::Time now) {
  for (const Membership::Lost& daemon : lost) {
    LogWarning("%s %s is lost: %s", proto::Role_Name(daemon.role), daemon.name, daemon.why);
    if (daemon.session != SessionId()) actions_->Close(daemon.session);
    jobs_.OnLost(daemon, now);
  }
}

absl::StatusOr<JobId> CoordinatorCore::Submit(const proto::Job& job,
                                              const proto::ResumeFrom& resume, uint64_t token,
                                              absl::Time now, const Submitter& by) {
  absl::StatusOr<JobId> id = jobs_.Submit(job, resume, token, now, by);
  if (!id.ok()) ++refusals_["rejected job"];
  return id;
}

absl::Status CoordinatorCore::Cancel(JobId job, absl::Time now) { return jobs_.Cancel(job, now); }

absl::StatusOr<proto::JobStatus> CoordinatorCore::GetJob(JobId job) const {
  const JobEntry* entry = jobs_.Find(job);
  if (entry == nullptr) return NoSuchJob(job);
  proto::JobStatus shown = entry->Shown();
  if (options_.add_memory_parts) options_.add_memory_parts(entry->stored.record(), &shown);
  return shown;
}

std::optional<JobOwner> CoordinatorCore::OwnerOf(JobId job) const {
  const JobEntry* entry = jobs_.Find(job);
  if (entry == nullptr) return std::nullopt;
  return entry->owner();
}

proto::ListJobsReply CoordinatorCore::ListJobs() const {
  proto::ListJobsReply reply;
  for (const JobEntry* entry : jobs_.All()) *reply.add_jobs() = entry->Shown();
  return reply;
}

proto::ListNodesReply CoordinatorCore::ListNodes(absl::Time now) const {
  proto::ListNodesReply reply;
  reply.set_cluster_id(cluster_id_);
  for (const Daemon* daemon : membership_.All()) {
    const proto::Register& registration = daemon->registration;
    proto::DaemonStatus* status = reply.add_daemons();
    status->set_name(registration.name());
    status->set_role(registration.role());
    status->set_address(registration.address());
    status->set_alive(daemon->alive);
    status->set_slots(registration.slots());
    status->set_slots_used(jobs_.SlotsUsedOn(registration.name()));
    *status->mutable_gpus() = registration.gpus();
    status->set_gpu_slots(CountGpuSlots(registration));
    status->set_gpu_slots_used(jobs_.GpuSlotsUsedOn(registration.name()));
    *status->mutable_shard_ports() = registration.shard_ports();
    for (uint32_t job : jobs_.RunningOn(registration.name())) status->add_jobs(job);
    for (proto::PeerReach& peer : reachability_.Tried(registration.name())) {
      *status->add_peers() = std::move(peer);
    }
    status->set_draining(IsTakenOut(registration.name()));
    status->set_stands_in(registration.stands_in());
    status->set_version(registration.version());
    status->set_protocol_version(registration.protocol_version());
    status->set_drained(status->draining() && status->jobs().empty());
    status->set_last_heartbeat_ms_ago(absl::ToInt64Milliseconds(now - daemon->heard_at));
    *status->mutable_resources() = daemon->report.resources();
    *status->mutable_refusals() = daemon->report.refusals();
  }
  return reply;
}

}  // namespace strata::server
