#include "server/coordinator/core/coordinator_core.h"

#include <xxhash.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/trace_log.h"
#include "common/log.h"
#include "common/require.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace strata::server {
namespace {

// The job that the whole message is about, which each such message names in a field of this name;
// nullopt: the message is about the daemon.
std::optional<uint32_t> ConcernedJob(const proto::DaemonMessage& message) {
  static const auto* const kOneof = proto::DaemonMessage::descriptor()->FindOneofByName("message");
  const google::protobuf::Reflection& whole = *message.GetReflection();
  const auto* const set = whole.GetOneofFieldDescriptor(message, kOneof);
  if (set == nullptr) return std::nullopt;
  const auto* const job_id = set->message_type()->FindFieldByName("job_id");
  if (job_id == nullptr) return std::nullopt;
  const google::protobuf::Message& part = whole.GetMessage(message, set);
  return part.GetReflection()->GetUInt32(part, job_id);
}

std::string NameOf(const Daemon& daemon) {
  const bool is_server = daemon.registration.role() == proto::SERVER;
  return absl::StrCat(is_server ? "server " : "worker ", daemon.registration.name());
}

// "job 3 (lenet), job 4 (moons)"
std::string NameJobs(const proto::DrainReply& reply) {
  constexpr int kNamesMax = 6;
  std::string text;
  for (int i = 0; i < reply.jobs_size(); ++i) {
    if (i == kNamesMax) return text + ", ...";
    absl::StrAppendFormat(&text, "%sjob %d (%s)", i == 0 ? "" : ", ", reply.jobs(i).job_id(),
                          reply.jobs(i).name());
  }
  return text;
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
  // Late messages about a job that the daemon just left change nothing, and are not errors.
  if (part == JobTable::Part::kNever) ++refusals_["about a job of other daemons"];
  return part == JobTable::Part::kHas;
}

void CoordinatorCore::OnMessage(SessionId session, const proto::DaemonMessage& message,
                                absl::Time now) {
  if (message.has_register_()) return OnRegister(session, message.register_(), now);
  const std::string daemon = membership_.Heard(session, now);
  if (daemon.empty()) {
    RefuseNewcomer(session, "before Register");
    return actions_->Close(session);  // it may register again
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
  if (!entry.stored().training()) return true;  // nor has it ever
  if (now - absl::FromUnixMillis(entry.stored().status().ended_ms()) >= options_.trace_patience) {
    return true;
  }
  for (const JobNode& node : entry.nodes()) {
    if (MayHaveMoreFrom(entry.id(), node.daemon())) return false;
  }
  for (const JobServer& server : entry.servers()) {
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
  // The loss of one daemon may let jobs start; that decision uses the last reports of others that
  // are lost, too.
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
  if (options_.add_memory_parts) options_.add_memory_parts(entry->stored().record(), &shown);
  return shown;
}

std::optional<JobOwner> CoordinatorCore::OwnerOf(JobId job) const {
  const JobEntry* entry = jobs_.Find(job);
  if (entry == nullptr) return std::nullopt;
  return entry->owner();
}

proto::ListJobsReply CoordinatorCore::ListJobs(JobId after,
                                               const std::function<bool(const JobOwner&)>& is_shown,
                                               size_t bytes_max) const {
  proto::ListJobsReply reply;
  size_t bytes = 0;
  for (const JobEntry* entry : jobs_.All()) {
    if (entry->id() <= after || (is_shown && !is_shown(entry->owner()))) continue;
    proto::JobStatus shown = entry->Shown();
    bytes += shown.ByteSizeLong();
    if (bytes > bytes_max && !reply.jobs().empty()) {
      reply.set_more(true);
      break;
    }
    *reply.add_jobs() = std::move(shown);
  }
  return reply;
}

proto::ListNodesReply CoordinatorCore::ListNodes(absl::Time now) const {
  proto::ListNodesReply reply;
  reply.set_cluster_id(cluster_id_);
  for (const Daemon* daemon : membership_.All()) *reply.add_daemons() = StatusOf(*daemon, now);
  return reply;
}

proto::ListNodesReply CoordinatorCore::ListNodes(absl::Time now, const std::string& after,
                                                 size_t bytes_max) const {
  proto::ListNodesReply reply;
  reply.set_cluster_id(cluster_id_);
  std::map<std::string, const Daemon*> by_name;
  for (const Daemon* daemon : membership_.All()) {
    if (daemon->registration.name() > after) by_name[daemon->registration.name()] = daemon;
  }
  size_t bytes = 0;
  for (const auto& [name, daemon] : by_name) {
    proto::DaemonStatus status = StatusOf(*daemon, now);
    bytes += status.ByteSizeLong();
    if (bytes > bytes_max && !reply.daemons().empty()) {
      reply.set_more(true);
      break;
    }
    *reply.add_daemons() = std::move(status);
  }
  return reply;
}

proto::DaemonStatus CoordinatorCore::StatusOf(const Daemon& daemon, absl::Time now) const {
  proto::DaemonStatus status;
  const proto::Register& registration = daemon.registration;
  status.set_name(registration.name());
  status.set_role(registration.role());
  status.set_address(registration.address());
  status.set_alive(daemon.alive);
  status.set_slots(registration.slots());
  status.set_slots_used(jobs_.SlotsUsedOn(registration.name()));
  *status.mutable_gpus() = registration.gpus();
  status.set_gpu_slots(CountGpuSlots(registration));
  status.set_gpu_slots_used(jobs_.GpuSlotsUsedOn(registration.name()));
  *status.mutable_shard_ports() = registration.shard_ports();
  for (uint32_t job : jobs_.RunningOn(registration.name())) status.add_jobs(job);
  for (proto::PeerReach& peer : reachability_.Tried(registration.name())) {
    *status.add_peers() = std::move(peer);
  }
  status.set_draining(IsTakenOut(registration.name()));
  status.set_stands_in(registration.stands_in());
  status.set_version(registration.version());
  status.set_protocol_version(registration.protocol_version());
  status.set_drained(status.draining() && status.jobs().empty());
  status.set_last_heartbeat_ms_ago(absl::ToInt64Milliseconds(now - daemon.heard_at));
  *status.mutable_resources() = daemon.report.resources();
  *status.mutable_refusals() = daemon.report.refusals();
  return status;
}

// ---- daemons that are drained ----

void CoordinatorCore::RestoreDraining(const std::vector<std::string>& daemons) {
  membership_.SetDraining({daemons.begin(), daemons.end()});
}

bool CoordinatorCore::IsTakenOut(const std::string& name) const {
  return membership_.IsDraining(name) && !membership_.StandsIn(name);
}

absl::Status CoordinatorCore::SaveDraining(std::set<std::string> names) {
  absl::Status saved = actions_->PersistDraining({names.begin(), names.end()});
  if (saved.ok()) membership_.SetDraining(std::move(names));
  return saved;
}

proto::DrainReply CoordinatorCore::TellDrain(const Daemon& daemon) const {
  const std::string& name = daemon.registration.name();
  proto::DrainReply reply;
  reply.set_role(daemon.registration.role());
  reply.set_draining(IsTakenOut(name));
  reply.set_drained(reply.draining() && jobs_.RunningOn(name).empty());
  if (membership_.StandsIn(name)) reply.set_note("it only stands in for workers that are lost");
  jobs_.TellDrain(name, &reply);
  const std::vector<const Daemon*> alive = membership_.Alive(daemon.registration.role());
  const bool others = std::any_of(alive.begin(), alive.end(), [&](const Daemon* other) {
    return other != &daemon && !membership_.IsDraining(other->registration.name());
  });
  if (!others && reply.draining()) {
    const bool is_server = daemon.registration.role() == proto::SERVER;
    reply.set_note(is_server ? "no other server is left: jobs that need one do not start"
                             : "no other worker is left: jobs wait until there is one");
  }
  return reply;
}

absl::Status CoordinatorCore::CheckOthersAreLeft(const Daemon& daemon) const {
  if (daemon.registration.role() != proto::SERVER) return absl::OkStatus();
  const std::vector<const Daemon*> alive = membership_.Alive(proto::SERVER);
  const bool others = std::any_of(alive.begin(), alive.end(), [&](const Daemon* other) {
    return other != &daemon && !membership_.IsDraining(other->registration.name());
  });
  proto::DrainReply reply;
  jobs_.TellDrain(daemon.registration.name(), &reply);
  if (others || reply.jobs().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s cannot be drained: no other server is there to take what it has of %s",
                      NameOf(daemon), NameJobs(reply)));
}

void CoordinatorCore::OnLeaving(const std::string& daemon, absl::Time now) {
  const bool was_draining = IsTakenOut(daemon);
  membership_.SetLeaving(daemon);
  if (was_draining) return;
  LogInfo("%s is about to end, and is being drained", daemon);
  jobs_.LeaveDrained(now);
  jobs_.StartQueued(now);
}

absl::StatusOr<proto::DrainReply> CoordinatorCore::Drain(const proto::DrainRequest& request,
                                                         absl::Time now) {
  const std::string& name = request.daemon();
  const Daemon* const daemon = membership_.Find(name);
  std::set<std::string> draining = membership_.draining();
  if (daemon == nullptr && !draining.contains(name)) {
    return absl::NotFoundError(
        absl::StrFormat("no server or worker is called \"%s\" (see strata nodes)", name));
  }
  if (request.action() == proto::DrainRequest::UNDO) {
    if (draining.erase(name) == 0) {
      const char* const why = IsTakenOut(name) ? " is about to end: it was told to (--notice)"
                                               : " is not being drained";
      return absl::FailedPreconditionError(absl::StrCat(NameOf(*daemon), why));
    }
  } else if (request.action() == proto::DrainRequest::DRAIN && !draining.contains(name)) {
    if (absl::Status left = CheckOthersAreLeft(*daemon); !left.ok()) return left;
    draining.insert(name);
  }
  if (draining != membership_.draining()) {
    if (absl::Status saved = SaveDraining(std::move(draining)); !saved.ok()) return saved;
    LogInfo("%s is %s", name, IsTakenOut(name) ? "being drained" : "back in service");
    jobs_.LeaveDrained(now);
    jobs_.StartQueued(now);
  }
  if (daemon != nullptr) return TellDrain(*daemon);
  // It is out of service, and has not registered since the coordinator started.
  proto::DrainReply reply;
  reply.set_draining(IsTakenOut(name));
  reply.set_drained(reply.draining());
  return reply;
}

}  // namespace strata::server
