#include "server/coordinator/jobs/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/log.h"

namespace strata::server {

JobTable::JobTable(Options options, uint64_t cluster, const Membership* membership,
                   const Reachability* reachability, CoordinatorActions* actions)
    : options_(options),
      cluster_(cluster),
      membership_(membership),
      reachability_(reachability),
      actions_(actions) {}

void JobTable::Restore(const std::vector<proto::StoredJob>& jobs, uint32_t next_job_id,
                       bool is_restart, absl::Time now) {
  next_job_id_ = next_job_id;
  started_at_ = now;
  is_restart_ = is_restart;
  for (const proto::StoredJob& stored : jobs) {
    JobEntry entry = JobEntry::Restored(stored);
    const JobId id = entry.id();
    jobs_.insert_or_assign(id, std::move(entry));
  }
  for (auto& [id, entry] : jobs_) {
    if (!entry.running() || entry.phase == JobPhase::kTraining) continue;
    Fail(&entry, "the coordinator was restarted while the job was starting", now);
  }
  StartQueued(now);
}

absl::StatusOr<JobId> JobTable::Submit(proto::Job job, uint64_t token, absl::Time now) {
  FillDefaults(&job);
  const absl::Status valid = ValidateJob(job);
  if (!valid.ok()) return valid;
  if (job.exchange() == proto::Job::MPI) {
    return absl::InvalidArgumentError(
        "exchange: MPI is started by mpirun, without a cluster: mpirun -n RANKS strata rank --job "
        "FILE");
  }
  const auto queued = std::count_if(jobs_.begin(), jobs_.end(), [](const auto& item) {
    return item.second.state() == proto::QUEUED;
  });
  if (static_cast<size_t>(queued) >= options_.queued_max) {
    return absl::ResourceExhaustedError(absl::StrFormat("the queue is full: %d jobs wait", queued));
  }
  const JobId id(next_job_id_);
  JobEntry entry = JobEntry::Submitted(id, token, cluster_, job, now);
  const absl::Status saved = actions_->Persist(entry.stored);
  if (!saved.ok()) return saved;
  ++next_job_id_;
  jobs_.emplace(id, std::move(entry));
  StartQueued(now);
  return id;
}

absl::Status JobTable::Cancel(JobId job, absl::Time now) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return absl::NotFoundError(absl::StrFormat("no job %d", job.value()));
  if (it->second.ended()) return absl::OkStatus();
  End(&it->second, proto::CANCELLED, "cancelled by the user", now);
  StartQueued(now);
  return absl::OkStatus();
}

const JobEntry* JobTable::Find(JobId job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : &it->second;
}

std::vector<const JobEntry*> JobTable::All() const {
  std::vector<const JobEntry*> all;
  for (const auto& [id, entry] : jobs_) all.push_back(&entry);
  return all;
}

void JobTable::OnJoined(const Daemon& daemon, bool returned, absl::Time now) {
  const std::string& name = daemon.registration.name();
  const auto& held = daemon.registration.running_jobs();
  const bool worker = daemon.registration.role() == proto::WORKER;
  if (worker && !returned) worker_joined_at_ = now;
  // First, to make room for what it is to begin.
  for (uint32_t job : held) {
    JobEntry* entry = Running(job);
    const bool wanted = entry != nullptr && (worker ? entry->NodeOn(name) != nullptr
                                                    : entry->ServerOn(name) != nullptr);
    if (wanted) continue;
    if (worker) {
      SendStop(name, JobId(job), "the job has ended");
    } else {
      SendRemove(name, JobId(job));
    }
  }
  for (auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    const bool holds = std::find(held.begin(), held.end(), id.value()) != held.end();
    if (JobNode* node = entry.NodeOn(name); node != nullptr && worker && !node->finished) {
      NodeCameBack(&entry, node, holds, now);
      continue;
    }
    JobServer* server = worker ? nullptr : entry.ServerOn(name);
    if (server == nullptr) continue;
    server->present = true;
    if (!server->installed) {
      SendInstall(entry, *server);  // one of the two, or the answer, may be lost
    } else if (!holds) {
      Fail(&entry, absl::StrFormat("server %s no longer holds the job's weights", name), now);
    }
  }
  StartQueued(now);
}

// What was on its way when the line broke may be lost. Daemons take each command any number of
// times; what they said, they say again.
void JobTable::NodeCameBack(JobEntry* entry, JobNode* node, bool holds, absl::Time now) {
  node->present = true;
  const bool starts = entry->phase == JobPhase::kStarting && !node->ready;
  node->missing_since = holds || starts ? absl::InfiniteFuture() : now;
  if (starts) return SendStart(*entry, *node);
  if (entry->phase == JobPhase::kMeasuring && !node->link) return SendMeasure(*entry, *node);
  if (entry->phase != JobPhase::kTraining) return;
  if (holds && !entry->metrics.HasReported(node->first_rank)) SendRun(*entry, *node);
  if (!holds || node->node != 0) return;
  // What was sent during the break may be lost; the worker drops what it has.
  for (const proto::MetricsRecord& record : entry->recent) SendMetrics(*entry, record);
}

void JobTable::OnLost(const Membership::Lost& lost, absl::Time now) {
  for (auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    if (const JobNode* node = entry.NodeOn(lost.name);
        node != nullptr && lost.role == proto::WORKER && !node->finished) {
      Fail(&entry, absl::StrCat(node->Describe(), " is lost: ", lost.why), now);
    } else if (lost.role == proto::SERVER && entry.ServerOn(lost.name) != nullptr) {
      Fail(&entry, absl::StrFormat("server %s is lost: %s", lost.name, lost.why), now);
    }
  }
  StartQueued(now);
}

void JobTable::OnNodeReady(const std::string& daemon, const proto::NodeReady& message,
                           absl::Time now) {
  JobEntry* entry = Running(message.job_id());
  JobNode* node = entry == nullptr ? nullptr : entry->NodeOn(daemon);
  if (node == nullptr || entry->phase != JobPhase::kStarting || node->ready) return;
  node->ready = true;
  node->info = message;
  if (!entry->all_ready()) return;
  const absl::Status taken = entry->TakeLayout();
  if (!taken.ok()) {
    Fail(entry, std::string(taken.message()), now);
    StartQueued(now);
    return;
  }
  Install(entry, now);
}

void JobTable::OnJobInstalled(const std::string& daemon, const proto::JobInstalled& message,
                              absl::Time now) {
  JobEntry* entry = Running(message.job_id());
  JobServer* server = entry == nullptr ? nullptr : entry->ServerOn(daemon);
  if (server == nullptr || entry->phase != JobPhase::kInstalling) return;
  if (!message.error().empty()) {
    Fail(entry, absl::StrFormat("server %s: %s", daemon, message.error()), now);
    StartQueued(now);
    return;
  }
  server->installed = true;
  const bool all_installed = std::all_of(entry->servers.begin(), entry->servers.end(),
                                         [](const JobServer& s) { return s.installed; });
  if (all_installed) Train(entry, now);
}

void JobTable::Train(JobEntry* entry, absl::Time now) {
  entry->BeginTraining(now);
  const absl::Status saved = Save(entry);
  if (!saved.ok()) return Fail(entry, NotSaved(saved), now);
  for (const JobNode& node : entry->nodes) SendRun(*entry, node);
  NotifyStatus(entry);
}

void JobTable::OnNodeFinished(const std::string& daemon, JobId job, absl::Time now) {
  JobEntry* entry = Running(job.value());
  JobNode* node = entry == nullptr ? nullptr : entry->NodeOn(daemon);
  if (node == nullptr || node->finished) return;
  if (entry->phase != JobPhase::kTraining) {
    Fail(entry, absl::StrCat(node->Describe(), " ended before training began"), now);
  } else {
    node->finished = true;
    entry->stored.set_node_finished(node->node, true);
    const bool all_finished = std::all_of(entry->nodes.begin(), entry->nodes.end(),
                                          [](const JobNode& n) { return n.finished; });
    if (all_finished) {
      End(entry, proto::FINISHED, "", now);
    } else {
      Save(entry).IgnoreError();  // repeated
    }
  }
  StartQueued(now);
}

void JobTable::OnNodeFailed(const std::string& daemon, const proto::NodeFailed& message,
                            absl::Time now) {
  JobEntry* entry = Running(message.job_id());
  const JobNode* node = entry == nullptr ? nullptr : entry->NodeOn(daemon);
  if (node == nullptr) return;
  const bool names_daemon = absl::StrContains(message.reason(), daemon);
  Fail(entry,
       names_daemon ? message.reason() : absl::StrCat(node->Describe(), ": ", message.reason()),
       now);
  StartQueued(now);
}

void JobTable::OnRankReport(const std::string& daemon, const proto::RankReport& report,
                            absl::Time now) {
  JobEntry* entry = Running(report.job_id());
  const JobNode* node = entry == nullptr ? nullptr : entry->NodeOn(daemon);
  if (node == nullptr || entry->phase != JobPhase::kTraining) return;
  const uint32_t rank = report.rank();
  if (rank < node->first_rank || rank >= node->first_rank + node->ranks) return;
  proto::FollowEvent event;
  *event.mutable_report() = report;
  actions_->Notify(entry->id(), event);
  Publish(entry, entry->metrics.Add(report, entry->ElapsedSeconds(now)));
  entry->has_news = true;
}

void JobTable::OnCounters(const std::string& daemon, const proto::JobCounters& counters,
                          absl::Time now) {
  const auto it = jobs_.find(JobId(counters.job_id()));
  if (it == jobs_.end()) return;
  JobEntry& entry = it->second;
  if (counters.nodes_size() > entry.stored.record().view().nodes_size()) return;
  // Only of shards that the placement gives this daemon.
  for (proto::JobShardStatus& shard : *entry.status().mutable_shards()) {
    if (shard.daemon() != daemon || shard.shard() != counters.shard()) continue;
    if (entry.running()) {
      entry.activity.OnShard(daemon, counters.shard(), counters, StepsPerClock(entry.job()), now);
    }
    const bool changed =
        shard.counters().SerializeAsString() != counters.counters().SerializeAsString();
    if (!changed) return;
    *shard.mutable_counters() = counters.counters();
    if (entry.ended()) Save(&entry).IgnoreError();  // the last ones may come after the job's end
  }
}

void JobTable::Excuse(absl::Duration gap, absl::Time now) {
  started_at_ = Excused(started_at_, gap, now);
  worker_joined_at_ = Excused(worker_joined_at_, gap, now);
  for (auto& [id, entry] : jobs_) {
    for (JobNode& node : entry.nodes) node.missing_since = Excused(node.missing_since, gap, now);
    entry.activity.Excuse(gap, now);
    entry.place_since = Excused(entry.place_since, gap, now);
    entry.phase_since = Excused(entry.phase_since, gap, now);
  }
}

// Its daemon has been heard for long enough to have said how the job ended there.
bool JobTable::IsMissing(const JobNode& node) const {
  const Daemon* daemon = membership_->Find(node.daemon);
  return daemon != nullptr && daemon->heard_at - node.missing_since >= options_.missing_grace;
}

void JobTable::Tick(absl::Time now) {
  const bool tell = now - news_at_ >= options_.news_every;
  if (tell) news_at_ = now;
  for (auto& [id, entry] : jobs_) {
    for (const JobNode& node : entry.nodes) {
      if (!entry.running() || node.finished) continue;
      if (IsMissing(node)) {
        Fail(&entry, absl::StrCat(node.Describe(), " no longer runs the job"), now);
      } else if (!node.present && now - started_at_ >= options_.restart_patience) {
        Fail(&entry,
             absl::StrCat(node.Describe(), " did not come back within ",
                          absl::FormatDuration(options_.restart_patience),
                          " of the coordinator's restart"),
             now);
      }
    }
    for (const JobServer& server : entry.servers) {
      if (!entry.running() || server.present) continue;
      if (now - started_at_ < options_.restart_patience) continue;
      Fail(&entry,
           absl::StrCat("server ", server.daemon, " did not come back within ",
                        absl::FormatDuration(options_.restart_patience),
                        " of the coordinator's restart"),
           now);
    }
    if (tell && entry.running()) UpdateWaits(&entry, now);
    if (tell && entry.has_news && entry.running()) NotifyStatus(&entry);
    if (entry.unsaved) Save(&entry).IgnoreError();  // repeated
  }
  ForgetOldest();
  StartQueued(now);
}

void JobTable::ForgetOldest() {
  size_t ended = std::count_if(jobs_.begin(), jobs_.end(),
                               [](const auto& item) { return item.second.ended(); });
  for (auto it = jobs_.begin(); it != jobs_.end() && ended > options_.ended_max;) {
    if (!it->second.ended()) {
      ++it;
      continue;
    }
    actions_->Forget(it->first);
    it = jobs_.erase(it);
    --ended;
  }
}

JobEntry* JobTable::Running(uint32_t job) {
  const auto it = jobs_.find(JobId(job));
  return it == jobs_.end() || !it->second.running() ? nullptr : &it->second;
}

void JobTable::Fail(JobEntry* entry, const std::string& reason, absl::Time now) {
  End(entry, proto::FAILED, reason, now);
}

void JobTable::End(JobEntry* entry, proto::JobState state, const std::string& reason,
                   absl::Time now) {
  if (entry->stored.training()) Publish(entry, entry->metrics.Flush(entry->ElapsedSeconds(now)));
  entry->RefreshProgress();
  entry->phase = JobPhase::kNone;
  entry->status().set_state(state);
  entry->status().set_reason(reason);
  entry->status().set_ended_ms(absl::ToUnixMillis(now));
  entry->status().mutable_progress()->set_eta_s(state == proto::FINISHED ? 0 : -1);
  entry->recent.clear();
  Save(entry).IgnoreError();  // repeated
  LogInfo("job %d (%s): %s%s%s", entry->id().value(), entry->job().name(),
          proto::JobState_Name(state), reason.empty() ? "" : ": ", reason);
  for (const JobNode& node : entry->nodes) {
    if (!node.finished) SendStop(node.daemon, entry->id(), reason);
  }
  for (const JobServer& server : entry->servers) SendRemove(server.daemon, entry->id());
  NotifyStatus(entry);
}

}  // namespace strata::server
