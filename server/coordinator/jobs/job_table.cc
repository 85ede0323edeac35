#include "server/coordinator/jobs/job_table.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/log.h"
#include "common/require.h"
#include "server/coordinator/jobs/go_on.h"
#include "server/coordinator/jobs/job_placer.h"
#include "server/coordinator/jobs/slot_use.h"
#include "server/coordinator/jobs/view_layout.h"
#include "server/coordinator/placement/shard_homes.h"

namespace strata::server {

JobTable::JobTable(Options options, uint64_t cluster, const Membership* membership,
                   const Reachability* reachability, JobActions* actions)
    : options_(options),
      cluster_(cluster),
      membership_(membership),
      actions_(actions),
      reached_(membership, reachability),
      queue_(options.settle_after, &jobs_, membership, &reached_),
      placer_(options.place_patience, options.protection, membership, &reached_),
      commands_(&jobs_, membership, actions),
      announcer_(options.recent_max, &commands_, actions),
      reports_(options.diagnosis, membership, &announcer_),
      life_(options.new_secret, &placer_, &commands_, &announcer_),
      replacer_(membership, &reached_, &queue_, &commands_, &announcer_, &life_),
      keeper_(options, membership, &placer_, &commands_, &announcer_, &life_),
      views_(options, membership, &reached_, &queue_, &commands_, &announcer_, &life_, &replacer_),
      rings_(options, &commands_, &announcer_, &life_) {}

void JobTable::Restore(const std::vector<proto::StoredJob>& jobs, uint32_t next_job_id,
                       bool is_restart, absl::Time now) {
  STRATA_REQUIRE(jobs_.empty() && started_at_ == absl::InfinitePast());
  next_job_id_ = next_job_id;
  started_at_ = now;
  is_restart_ = is_restart;
  for (const proto::StoredJob& stored : jobs) {
    JobEntry entry = JobEntry::Restored(stored);
    const JobId id = entry.id();
    if (entry.queued()) SettleOld(&entry);
    keeper_.Restore(id, now);
    if (entry.running()) replacer_.Restore(entry);
    jobs_.insert_or_assign(id, std::move(entry));
  }
  for (auto& [id, entry] : jobs_) {
    if (!entry.running() || entry.stage() == JobStage::kTraining) continue;
    life_.Fail("the coordinator was restarted while the job was starting", &entry, now,
               /*is_death=*/true);
  }
  StartQueued(now);
}

void JobTable::SettleOld(JobEntry* entry) const {
  proto::Job* job = entry->mutable_stored()->mutable_record()->mutable_job();
  if (job->protection() != proto::Job::BY_CLUSTER) return;
  STRATA_REQUIRE(SettleProtection(options_.protection(), job).ok());
  entry->status().mutable_job()->set_protection(job->protection());
  if (job->protection() != proto::Job::PLAIN) {
    entry->mutable_stored()->mutable_record()->set_secret(options_.new_secret());
  }
}

absl::StatusOr<JobId> JobTable::Submit(proto::Job job, const proto::ResumeFrom& resume,
                                       uint64_t token, absl::Time now, const Submitter& by) {
  if (const std::optional<JobId> known = FindRequest(by); known) return *known;
  FillDefaults(&job);
  absl::Status valid = ValidateJob(job);
  if (job.has_checkpoint()) {
    job.mutable_checkpoint()->set_dir(NormalFolder(job.checkpoint().dir()));
  }
  if (valid.ok()) valid = CheckFolderIsFree(job, by);
  const ProtectionRules rules = options_.protection();
  if (valid.ok()) valid = SettleProtection(rules, &job);
  if (!valid.ok()) return valid;
  const absl::StatusOr<std::string> resume_dir = ResumeDir(resume, by);
  if (!resume_dir.ok()) return resume_dir.status();
  if (job.exchange() == proto::Job::MPI) {
    return absl::InvalidArgumentError(
        "exchange: MPI is started by mpirun, without a cluster: mpirun -n RANKS strata rank --job "
        "FILE");
  }
  const absl::Status room = CheckQueueHasRoom(by.owner.user, options_.queued_max, jobs_);
  if (!room.ok()) return room;
  const JobId id(next_job_id_);
  JobEntry entry = JobEntry::Submitted(id, token, cluster_, job, NormalFolder(*resume_dir), now);
  if (job.protection() != proto::Job::PLAIN) {
    entry.mutable_stored()->mutable_record()->set_secret(options_.new_secret());
  }
  entry.status().set_owner(by.owner.user);
  entry.status().set_tenant(by.owner.tenant);
  entry.mutable_stored()->set_request_id(by.request_id);
  const absl::Status saved = actions_->Persist(entry.stored());
  if (!saved.ok()) return saved;
  ++next_job_id_;
  if (rules.has_keys && job.protection() == proto::Job::PLAIN) {
    LogWarning("job %d (%s): protection: PLAIN: whoever is on the network may read and change it",
               id.value(), job.name());
  }
  jobs_.emplace(id, std::move(entry));
  StartQueued(now);
  return id;
}

std::optional<JobId> JobTable::FindRequest(const Submitter& by) const {
  if (by.request_id == 0) return std::nullopt;
  // It is among the newest.
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
    const proto::StoredJob& stored = it->second.stored();
    if (stored.request_id() != by.request_id) continue;
    if (stored.status().owner() == by.owner.user) return it->first;
  }
  return std::nullopt;
}

absl::Status JobTable::Cancel(JobId job, absl::Time now) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return NoSuchJob(job);
  if (it->second.ended()) return absl::OkStatus();
  life_.End(proto::CANCELLED, "cancelled by the user", &it->second, now);
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

uint32_t JobTable::SlotsUsedOn(const std::string& daemon) const {
  return SlotsHeldOn(daemon, SlotKind::kAny, jobs_);
}

uint32_t JobTable::GpuSlotsUsedOn(const std::string& daemon) const {
  return SlotsHeldOn(daemon, SlotKind::kGpu, jobs_);
}

std::vector<uint32_t> JobTable::RunningOn(const std::string& daemon) const {
  std::vector<uint32_t> running;
  for (const auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    bool here = false;
    for (const JobNode& node : entry.nodes()) here = here || node.daemon() == daemon;
    for (const JobServer& server : entry.servers()) here = here || server.daemon == daemon;
    if (here) running.push_back(id.value());
  }
  return running;
}

JobTable::Part JobTable::PartOf(JobId job, const std::string& daemon) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) {
    return job.value() > 0 && job.value() < next_job_id_ ? Part::kHas : Part::kNever;
  }
  const auto is_here = [&](const auto& part) { return part.daemon() == daemon; };
  const auto backs_up = [&](const auto& shard) {
    return shard.backup() == daemon || shard.next_backup() == daemon;
  };
  const proto::JobStatus& status = it->second.stored().status();
  const bool has_part = std::any_of(status.nodes().begin(), status.nodes().end(), is_here) ||
                        std::any_of(status.shards().begin(), status.shards().end(), is_here) ||
                        std::any_of(status.shards().begin(), status.shards().end(), backs_up) ||
                        std::any_of(status.replacements().begin(), status.replacements().end(),
                                    [&](const auto& one) { return one.from() == daemon; });
  std::set<std::string>& heard = heard_[job];
  if (!has_part) return heard.contains(daemon) ? Part::kHad : Part::kNever;
  heard.insert(daemon);
  return Part::kHas;
}

void JobTable::StartQueued(absl::Time now) {
  for (auto& [id, entry] : jobs_) {
    if (entry.stage() == JobStage::kStarting && entry.all_ready()) life_.Install(&entry, now);
  }
  const bool may_return = is_restart_ && now - started_at_ < options_.restart_patience;
  const JobEntry* blocker = nullptr;
  // Before jobs that have not started.
  for (auto& [id, entry] : jobs_) {
    if (replacer_.PlaceWaiting(may_return, &entry, now) && blocker == nullptr) blocker = &entry;
  }
  for (auto& [id, entry] : jobs_) views_.LeaveStandIns(&entry, now);
  UserSlots slots(options_.slots_of_user, jobs_);
  for (auto& [id, entry] : jobs_) {
    if (!entry.queued() || HoldsBack(&entry, now)) continue;
    // It blocks nobody else: it waits only for jobs of its own user.
    if (const std::string why = slots.WhyWaits(entry); !why.empty()) {
      announcer_.SetReason(why, &entry);
      continue;
    }
    if (blocker != nullptr) {
      announcer_.SetReason(absl::StrCat("waits behind ", NameFor(entry, *blocker)), &entry);
      continue;
    }
    using Kind = JobQueue::Verdict::Kind;
    const JobQueue::Verdict verdict = queue_.Decide(entry, may_return, now);
    if (verdict.kind == Kind::kStarts) {
      uint32_t ranks = 0;
      for (const RankBlock& block : verdict.blocks) ranks += block.ranks;
      slots.OnStarted(entry, ranks);
      life_.Start(verdict.blocks, &entry, now);
    } else if (verdict.kind == Kind::kFails && entry.stored().status().restarts().empty()) {
      life_.Fail(verdict.reason, &entry, now);
    } else if (!verdict.reason.empty()) {
      announcer_.SetReason(verdict.reason, &entry);
    }
    if (verdict.kind == Kind::kBlocks) blocker = &entry;
  }
  if (blocker != nullptr) return;
  for (auto& [id, entry] : jobs_) views_.AddNodes(&slots, &entry, now);
}

void JobTable::OnJobInstalled(const std::string& daemon, const proto::JobInstalled& message,
                              absl::Time now) {
  JobEntry* entry = FindRunning(message);
  JobServer* server = entry == nullptr ? nullptr : entry->ServerOn(daemon);
  if (server == nullptr || entry->stage() != JobStage::kInstalling) return;
  if (!message.error().empty()) {
    const std::string reason = absl::StrFormat("server %s: %s", daemon, message.error());
    if (message.is_damaged() && entry->stored().record().has_resume()) {
      life_.GoOnFromEarlier(reason, entry, now);
    } else {
      life_.Fail(reason, entry, now);
    }
    StartQueued(now);
    return;
  }
  server->installed = true;
  const bool all_installed = std::all_of(entry->servers().begin(), entry->servers().end(),
                                         [](const JobServer& s) { return s.installed; });
  if (all_installed) life_.Train(entry, now);
}

void JobTable::OnLinkMeasured(const std::string& daemon, const proto::LinkMeasured& message,
                              absl::Time now) {
  JobEntry* entry = FindRunning(message);
  JobNode* node = entry == nullptr ? nullptr : entry->NodeOn(daemon);
  if (node == nullptr || entry->stage() != JobStage::kMeasuring || node->link()) return;
  // The rate is used as a divisor.
  if (!(message.bytes_per_s() > 0) || !(message.latency_us() >= 0)) return;
  node->SetLink(message);
  const bool all_measured = std::all_of(entry->nodes().begin(), entry->nodes().end(),
                                        [](const JobNode& n) { return n.link().has_value(); });
  if (!all_measured) return;
  ChooseRingAlgorithm(entry);
  life_.Train(entry, now);
}

void JobTable::OnRankReport(const std::string& daemon, const proto::RankReport& report,
                            absl::Time now) {
  JobEntry* entry = FindRunning(report);
  if (entry == nullptr) return;
  const JobNode* node = entry->NodeOn(daemon);
  const bool trains = node != nullptr && entry->stage() == JobStage::kTraining;
  if (report.has_state()) {
    if (!trains || !node->ready() || !node->HasRank(report.rank())) return;
    const std::string difference = entry->rank_states().Add(report.rank(), report.state());
    if (difference.empty()) return;
    life_.Fail(difference, entry, now);
    return StartQueued(now);
  }
  reports_.OnRankReport(daemon, report, entry, now);
  if (trains && node->HasRank(report.rank())) replacer_.OnReport(report, *node, entry);
}

void JobTable::OnCounters(const std::string& daemon, const proto::JobCounters& counters,
                          absl::Time now) {
  const auto it = jobs_.find(JobId(counters.job_id()));
  if (it == jobs_.end()) return;
  reports_.OnCounters(daemon, counters, &it->second, now);
  keeper_.OnBackups(daemon, counters, &it->second, now);
}

void JobTable::Excuse(absl::Duration gap, absl::Time now) {
  started_at_ = Excused(started_at_, gap, now);
  queue_.Excuse(gap, now);
  placer_.Excuse(gap, now);
  for (auto& [id, entry] : jobs_) {
    for (JobNode& node : entry.nodes()) node.Excuse(gap, now);
    entry.waits().Excuse(gap, now);
    entry.ring().Excuse(gap, now);
  }
}

void JobTable::Tick(absl::Time now) {
  const bool tell = now - news_at_ >= options_.news_every;
  if (tell) news_at_ = now;
  for (auto& [id, entry] : jobs_) {
    FailIfGone(&entry, now);
    rings_.Step(&entry, now);
    keeper_.AddBackups(&entry, now);
    if (tell && entry.running()) {
      reports_.UpdateWaits(&entry, now);
      replacer_.ReplaceHung(&entry, now);
      announcer_.TellNews(&entry);
    }
    announcer_.SaveAgain(entry);
  }
  LeaveDrained(now);
  ForgetOldest();
  StartQueued(now);
}

void JobTable::ForgetOldest() {
  const size_t ended = std::count_if(jobs_.begin(), jobs_.end(),
                                     [](const auto& item) { return item.second.ended(); });
  if (ended == ended_kept_) return;  // none has ended since
  const std::vector<JobId> too_many = EndedTooMany(jobs_, options_.ended_max);
  for (const JobId id : too_many) {
    announcer_.Forget(id);
    replacer_.ForgetJob(id);
    keeper_.ForgetJob(id);
    views_.ForgetJob(id);
    rings_.ForgetJob(id);
    heard_.erase(id);
    looks_.erase(id);
    jobs_.erase(id);
  }
  ended_kept_ = ended - too_many.size();
}

JobEntry* JobTable::FindRunning(uint32_t job) {
  const auto it = jobs_.find(JobId(job));
  return it == jobs_.end() || !it->second.running() ? nullptr : &it->second;
}

// ---- workers' reports about their nodes ----

template <typename Message>
JobNode* JobTable::FindNode(const std::string& daemon, const Message& message, JobEntry** entry) {
  *entry = FindRunning(message);
  JobNode* node = *entry == nullptr ? nullptr : (*entry)->NodeOn(daemon);
  return node == nullptr || !node->IsMeant(message) ? nullptr : node;
}

void JobTable::OnNodeReady(const std::string& daemon, const proto::NodeReady& message,
                           absl::Time now) {
  JobEntry* entry = nullptr;
  JobNode* node = FindNode(daemon, message, &entry);
  if (node == nullptr || node->ready()) return;
  if (entry->stage() == JobStage::kTraining) {
    if (node->joins()) {
      views_.OnJoinerReady(message, node, entry, now);
    } else {
      replacer_.OnReady(message, node, entry, now);
    }
    return StartQueued(now);
  }
  if (entry->stage() != JobStage::kStarting) return;
  node->BeReady(message);
  if (!entry->all_ready()) return;
  const absl::Status taken = entry->TakeLayout();
  if (!taken.ok()) {
    life_.Fail(std::string(taken.message()), entry, now);
    StartQueued(now);
    return;
  }
  life_.Install(entry, now);
}

void JobTable::OnNodeFinished(const std::string& daemon, const proto::NodeFinished& message,
                              absl::Time now) {
  JobEntry* entry = nullptr;
  JobNode* node = FindNode(daemon, message, &entry);
  if (node == nullptr || node->finished()) return;
  if (node->joins()) {
    views_.OnJoinerLost("its processes have ended", node, entry, now);
    return StartQueued(now);
  }
  if (message.has_steps_made()) node->SetStepsMade(message.steps_made());
  if (entry->stage() != JobStage::kTraining || !node->ready()) {
    life_.Fail(absl::StrCat(node->Describe(), " ended before training began"), entry, now);
  } else if (absl::Status equal = CheckEqualSteps(entry->nodes()); !equal.ok()) {
    life_.Fail(std::string(equal.message()), entry, now);
  } else {
    const bool leaves =
        node->leaves_at() && node->steps_made().value_or(*node->leaves_at()) >= *node->leaves_at();
    if (leaves) {
      views_.OnLeft(node, entry);
    } else {
      node->Finish();
      entry->mutable_stored()->set_node_finished(node->node(), true);
    }
    const bool all_finished =
        std::all_of(entry->nodes().begin(), entry->nodes().end(),
                    [](const JobNode& n) { return n.finished() || n.joins(); });
    if (all_finished) {
      life_.End(proto::FINISHED, "", entry, now);
    } else {
      announcer_.Save(*entry).IgnoreError();  // repeated
      rings_.OnFinished(*node, entry, now);
    }
  }
  StartQueued(now);
}

void JobTable::OnNodeFailed(const std::string& daemon, const proto::NodeFailed& message,
                            absl::Time now) {
  JobEntry* entry = nullptr;
  JobNode* node = FindNode(daemon, message, &entry);
  if (node == nullptr) return;
  const bool names_daemon = absl::StrContains(message.reason(), daemon);
  const std::string reason =
      names_daemon ? message.reason() : absl::StrCat(node->Describe(), ": ", message.reason());
  // A joining node gets current weights.
  if (message.is_damaged() && entry->stored().record().has_resume() && !node->joins()) {
    life_.GoOnFromEarlier(reason, entry, now);
  } else if (message.has_diverged() && !node->joins()) {
    // A process in its place would find the same.
    life_.Fail(reason, entry, now, /*is_death=*/false, /*has_diverged=*/true);
  } else if (node->finished() || (entry->drops_lost() && !message.is_death())) {
    life_.Fail(reason, entry, now);
  } else {
    LoseNode({.reason = reason, .is_own_end = true, .is_death = message.is_death()}, node, entry,
             now);
  }
  StartQueued(now);
}

void JobTable::OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                              absl::Time now) {
  JobEntry* entry = nullptr;
  const JobNode* node = FindNode(daemon, activity, &entry);
  if (node == nullptr) return;
  reports_.OnNodeActivity(daemon, activity, entry, now);
  if (entry->stage() != JobStage::kTraining) return;
  replacer_.OnActivity(activity, *node, entry);
  const absl::Status equal = CheckEqualSteps(entry->nodes());
  if (equal.ok()) return;
  life_.Fail(std::string(equal.message()), entry, now);
  StartQueued(now);
}

void JobTable::OnViewPromised(const std::string& daemon, const proto::ViewPromised& message,
                              absl::Time now) {
  JobEntry* entry = nullptr;
  const JobNode* node = FindNode(daemon, message, &entry);
  if (node != nullptr && node->node() == message.node()) {
    views_.OnPromised(message, *node, entry, now);
  }
}

void JobTable::OnViewInstalled(const std::string& daemon, const proto::ViewInstalled& message,
                               absl::Time now) {
  JobEntry* entry = FindRunning(message);
  if (entry == nullptr || entry->stage() != JobStage::kTraining) return;
  views_.OnInstalled(daemon, message, entry, now);
  StartQueued(now);
}

void JobTable::OnRingStopped(const std::string& daemon, const proto::RingStopped& message,
                             absl::Time now) {
  JobEntry* entry = nullptr;
  const JobNode* node = FindNode(daemon, message, &entry);
  if (node == nullptr || node->node() != message.node()) return;
  rings_.OnStopped(message, *node, entry, now);
  StartQueued(now);
}

void JobTable::LoseNode(const NodeReplacer::Loss& loss, JobNode* node, JobEntry* entry,
                        absl::Time now) {
  if (node->joins()) return views_.OnJoinerLost(loss.reason, node, entry, now);
  if (entry->drops_lost()) return rings_.OnLost(loss.reason, node, entry, now);
  replacer_.OnLost(loss, node, entry, now);
}

void JobTable::TakeMemory(const std::string& daemon, const proto::Heartbeat& heartbeat) {
  for (const proto::JobCounters& counters : heartbeat.jobs()) {
    JobEntry* entry = FindRunning(counters.job_id());
    if (entry != nullptr) reports_.OnShardMemory(daemon, counters, entry);
  }
  for (const proto::NodeActivity& activity : heartbeat.nodes()) {
    JobEntry* entry = nullptr;
    if (FindNode(daemon, activity, &entry) != nullptr) {
      reports_.OnNodeMemory(daemon, activity, entry);
    }
  }
}

// ---- daemons that join, leave or are drained ----

void JobTable::OnJoined(const Daemon& daemon, bool returned, absl::Time now) {
  const std::string& name = daemon.registration.name();
  const auto& held = daemon.registration.running_jobs();
  const bool worker = daemon.registration.role() == proto::WORKER;
  if (worker && !returned) queue_.OnWorkerJoined(now);
  StopUnwanted(daemon);  // first, to make room for what it is to begin
  for (auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    const bool holds = std::find(held.begin(), held.end(), id.value()) != held.end();
    JobNode* node = worker ? entry.NodeOn(name) : nullptr;
    JobServer* server = worker ? nullptr : entry.ServerOn(name);
    if (!returned) keeper_.Forgive(name, id);  // a new process
    if (node != nullptr && !node->finished()) {
      life_.OnNodeBack(holds, node, &entry, now);
      views_.TellAgain(*node, entry);
      rings_.TellAgain(*node, &entry, now);
    }
    if (server != nullptr) OnServerBack(holds, server, &entry, now);
    if (entry.running() && (node != nullptr || server != nullptr)) {
      keeper_.TellMovedAgain(name, entry);
    }
  }
  StartQueued(now);
}

void JobTable::StopUnwanted(const Daemon& daemon) {
  const std::string& name = daemon.registration.name();
  const bool worker = daemon.registration.role() == proto::WORKER;
  for (uint32_t job : daemon.registration.running_jobs()) {
    JobEntry* entry = FindRunning(job);
    const bool wanted = entry != nullptr && (worker ? entry->NodeOn(name) != nullptr
                                                    : entry->ServerOn(name) != nullptr);
    if (wanted) continue;
    if (worker) {
      commands_.SendStop(name, JobId(job), "the job has ended");
    } else {
      commands_.SendRemove(name, JobId(job));
    }
  }
}

void JobTable::OnServerBack(bool holds, JobServer* server, JobEntry* entry, absl::Time now) {
  server->present = true;
  if (!server->installed) {
    commands_.SendInstall(*entry, *server);  // a command or the answer may be lost
  } else if (!holds) {
    keeper_.OnServerLost(
        server->daemon,
        absl::StrFormat("server %s no longer holds the job's weights", server->daemon), entry, now);
  }
}

void JobTable::OnLost(const Membership::Lost& lost, absl::Time now) {
  for (auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    if (JobNode* node = entry.NodeOn(lost.name);
        node != nullptr && lost.role == proto::WORKER && !node->finished()) {
      LoseNode({absl::StrCat(node->Describe(), " is lost: ", lost.why)}, node, &entry, now);
    } else if (lost.role == proto::SERVER && entry.ServerOn(lost.name) != nullptr) {
      keeper_.OnServerLost(lost.name, absl::StrFormat("server %s is lost: %s", lost.name, lost.why),
                           &entry, now);
    }
  }
  StartQueued(now);
}

void JobTable::FailIfGone(JobEntry* entry, absl::Time now) {
  if (!entry->running()) return;
  const bool is_late = now - started_at_ >= options_.restart_patience;
  const auto not_back = [&](const std::string& who) {
    return absl::StrCat(who, " did not come back within ",
                        absl::FormatDuration(options_.restart_patience),
                        " of the coordinator's restart");
  };
  for (JobNode& node : entry->nodes()) {
    if (node.finished()) continue;
    if (IsMissing(node)) {
      LoseNode({absl::StrCat(node.Describe(), " no longer runs the job")}, &node, entry, now);
    } else if (!node.present() && is_late) {
      LoseNode({not_back(node.Describe())}, &node, entry, now);
    }
    if (!entry->running()) return;  // nor does it still have those nodes
  }
  if (!is_late) return;
  std::vector<std::string> late;
  for (const JobServer& server : entry->servers()) {
    if (!server.present) late.push_back(server.daemon);
  }
  for (const std::string& name : late) {
    if (entry->running())
      keeper_.OnServerLost(name, not_back(absl::StrCat("server ", name)), entry, now);
  }
}

// Returns whether its daemon has been back long enough to have reported how the job ended there.
bool JobTable::IsMissing(const JobNode& node) const {
  const Daemon* daemon = membership_->Find(node.daemon());
  return daemon != nullptr && daemon->heard_at - node.missing_since() >= options_.missing_grace;
}

void JobTable::OnBackupInstalled(const std::string& daemon, const proto::BackupInstalled& message,
                                 absl::Time now) {
  JobEntry* entry = FindRunning(message);
  if (entry != nullptr) keeper_.OnBackupInstalled(daemon, message, entry, now);
}

void JobTable::OnShardNotMoved(const std::string& daemon, const proto::ShardNotMoved& message,
                               absl::Time now) {
  JobEntry* entry = FindRunning(message);
  if (entry == nullptr) return;
  keeper_.OnShardNotMoved(daemon, message, entry, now);
  StartQueued(now);
}

void JobTable::LeaveDrained(absl::Time now) {
  keeper_.LeaveServers(&jobs_, now);
  for (auto& [id, entry] : jobs_) views_.Step(&entry, now);
}

void JobTable::TellDrain(const std::string& daemon, proto::DrainReply* reply) const {
  for (const auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    const uint32_t copies = CountCopies(daemon, entry.stored().status());
    const auto nodes = std::count_if(
        entry.nodes().begin(), entry.nodes().end(),
        [&](const JobNode& node) { return node.daemon() == daemon && !node.finished(); });
    if (copies == 0 && nodes == 0) continue;
    reply->set_shards_left(reply->shards_left() + copies);
    reply->set_nodes_left(reply->nodes_left() + static_cast<uint32_t>(nodes));
    proto::DrainedJob* const job = reply->add_jobs();
    job->set_job_id(id.value());
    job->set_name(entry.job().name());
    const std::string why = views_.WhyStays(daemon, entry);
    job->set_stays(why.empty() ? keeper_.WhyStays(daemon, id) : why);
  }
}

// ---- checkpoints ----

namespace {

// Drops the shown checkpoints: all that the job had written is useless.
void ShowThatItStartsOver(JobEntry* entry) {
  if (!entry->status().has_checkpoints()) return;
  proto::CheckpointStatus* shown = entry->status().mutable_checkpoints();
  shown->clear_resumed_dir();
  shown->clear_resumed_step();
  shown->clear_complete();
  shown->clear_newest_step();
  shown->clear_newest_ms();
  shown->clear_newest_bytes();
}

// Later checkpoints of the job itself are useless now.
void ShowNewest(const Manifest& manifest, uint64_t step, proto::CheckpointStatus* shown) {
  if (shown->newest_step() <= step) return;
  shown->set_newest_step(step);
  shown->set_newest_ms(absl::ToUnixMillis(manifest.written));
  uint64_t bytes = 0;
  for (const ObjectFacts& object : manifest.objects) bytes += object.bytes;
  shown->set_newest_bytes(bytes);
}

// Members of a namespace may see the names of its own jobs; those of the default one the names of
// all jobs without a known namespace.
NamedJobs NamedFor(const JobEntry& reader, const std::map<JobId, JobEntry>& jobs) {
  const std::string& tenant = reader.stored().status().tenant();
  NamedJobs named{.all_but = tenant.empty()};
  for (const auto& [id, entry] : jobs) {
    const bool is_same = entry.stored().status().tenant() == tenant;
    if (is_same != named.all_but) named.listed.insert(id.value());
  }
  return named;
}

// Interval between searches in a store that does not answer.
constexpr absl::Duration kLookEvery = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::string> JobTable::ResumeDir(const proto::ResumeFrom& resume,
                                                const Submitter& by) const {
  if (resume.job_id() == 0) {
    if (resume.dir().empty() || resume.dir()[0] == '/' || absl::StartsWith(resume.dir(), "s3://")) {
      return resume.dir();
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "resume: \"%s\" is neither an absolute path nor s3://BUCKET/PREFIX", resume.dir()));
  }
  const JobEntry* from = Find(JobId(resume.job_id()));
  if (from == nullptr || !by.Sees(from->owner().tenant)) {
    return absl::InvalidArgumentError(absl::StrFormat("resume: no job %d", resume.job_id()));
  }
  if (!from->job().has_checkpoint()) {
    return absl::InvalidArgumentError(absl::StrFormat("resume: job %d (%s) writes no checkpoints",
                                                      resume.job_id(), from->job().name()));
  }
  return from->job().checkpoint().dir();
}

absl::Status JobTable::CheckFolderIsFree(const proto::Job& job, const Submitter& by) const {
  if (!job.has_checkpoint()) return absl::OkStatus();
  for (const auto& [id, other] : jobs_) {
    if (other.ended() || other.job().checkpoint().dir() != job.checkpoint().dir()) continue;
    if (!by.Sees(other.owner().tenant)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("checkpoint.dir: another job writes to %s", job.checkpoint().dir()));
    }
    return absl::InvalidArgumentError(absl::StrFormat("checkpoint.dir: job %d (%s) writes to %s",
                                                      id.value(), other.job().name(),
                                                      job.checkpoint().dir()));
  }
  return absl::OkStatus();
}

bool JobTable::HoldsBack(JobEntry* entry, absl::Time now) {
  const proto::StoredResume& resume = entry->stored().resume();
  if (!entry->awaits_checkpoint()) return absl::FromUnixMillis(resume.not_before_ms()) > now;
  // A manifest that is being written may add a checkpoint.
  Look& look = looks_[entry->id()];
  if (look.is_under_way || look.again_at > now || entry->ledger().is_keeping()) return true;
  look.is_under_way = true;
  actions_->FindCheckpoint({.job = entry->id().value(),
                            .cluster = cluster_,
                            .own_dir = entry->job().checkpoint().dir(),
                            .resume_dir = resume.dir(),
                            .below = resume.below(),
                            .or_begin = resume.or_begin(),
                            .named = NamedFor(*entry, jobs_)});
  return true;
}

void JobTable::OnCheckpointFound(JobId job, const absl::StatusOr<CheckpointFound>& found,
                                 absl::Time now) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end() || !looks_[job].is_under_way) return;
  Look& look = looks_[job];
  JobEntry* entry = &it->second;
  look.is_under_way = false;
  if (!entry->awaits_checkpoint()) return;  // cancelled meanwhile
  proto::StoredResume* resume = entry->mutable_stored()->mutable_resume();
  absl::Status status = found.status();
  if (status.ok() && !resume->dir().empty()) status = TakeCheckpoint(*found, entry);
  if (absl::IsNotFound(status) && resume->or_begin()) {
    const bool has_origin = !resume->origin_dir().empty() && resume->origin_dir() != resume->dir();
    if (entry->status().checkpoints().complete() > 0 && resume->below() == 0) {
      status = absl::UnavailableError(
          absl::StrCat(status.message(), ", where the job has written some: is the folder there?"));
    } else {
      status = absl::OkStatus();
      ShowThatItStartsOver(entry);
    }
    if (status.ok() && has_origin) {
      resume->set_dir(resume->origin_dir());
      resume->set_or_begin(false);
      return StartQueued(now);
    }
  }
  if (status.ok()) {
    resume->set_is_settled(true);
    if (std::exchange(look.again_at, absl::InfinitePast()) != absl::InfinitePast()) {
      entry->status().set_reason("has found its checkpoints");
    }
    announcer_.Save(*entry).IgnoreError();  // repeated
    announcer_.TellStatus(entry);
  } else if (absl::IsAborted(status)) {
    life_.FailWithoutCheckpoint(std::string(status.message()), entry, now);
  } else if (absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
             absl::IsDataLoss(status)) {
    life_.Fail(std::string(status.message()), entry, now);
  } else {
    look.again_at = now + kLookEvery;
    announcer_.SetReason(absl::StrCat("waits for its checkpoints: ", status.message()), entry);
  }
  StartQueued(now);
}

absl::Status JobTable::TakeCheckpoint(const CheckpointFound& found, JobEntry* entry) {
  const std::string& dir = entry->stored().resume().dir();
  if (absl::Status same = CheckContinues(entry->job(), found.record); !same.ok()) {
    const bool may_name =
        NamedFor(*entry, jobs_).Has(found.manifest.job, found.record.cluster() == cluster_);
    const std::string whose =
        may_name ? absl::StrFormat("job %d, %s", found.manifest.job, found.manifest.job_name)
                 : "another job";
    return absl::InvalidArgumentError(
        absl::StrFormat("cannot go on from %s (%s): %s", dir, whose, same.message()));
  }
  absl::StatusOr<proto::Resume> resume = MakeResume(dir, found.manifest, found.record);
  if (!resume.ok()) return resume.status();
  proto::JobRecord goes_on = entry->stored().record();
  *goes_on.mutable_resume() = *resume;
  if (absl::Status fits = CheckHistory(found.record, goes_on); !fits.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("cannot go on from %s: %s", dir, fits.message()));
  }
  *entry->mutable_stored()->mutable_resume()->mutable_from() = found.record;
  proto::JobRecord* record = entry->mutable_stored()->mutable_record();
  *record = std::move(goes_on);
  record->mutable_job()->set_chunk_elements(found.record.placement().chunk_elements());
  const uint64_t step = resume->step();
  proto::CheckpointStatus* shown = entry->status().mutable_checkpoints();
  shown->set_resumed_dir(dir);
  shown->set_resumed_step(step);
  if (dir == entry->job().checkpoint().dir()) ShowNewest(found.manifest, step, shown);
  for (const std::string& one : found.passed_over) {
    const auto& known = shown->passed_over();
    if (std::find(known.begin(), known.end(), one) == known.end()) shown->add_passed_over(one);
  }
  if (const int restarts = entry->status().restarts_size(); restarts > 0) {
    entry->status().mutable_restarts(restarts - 1)->set_step(step);
  }
  LogInfo("job %d (%s): goes on from step %d in %s", entry->id().value(), entry->job().name(), step,
          dir);
  return absl::OkStatus();
}

// Also for an ended job: its last checkpoint tells where it stopped.
void JobTable::OnCheckpointPart(const std::string& daemon, const proto::CheckpointPart& part,
                                absl::Time now) {
  const auto it = jobs_.find(JobId(part.job_id()));
  if (it == jobs_.end() || part.token() != it->second.stored().record().token()) return;
  JobEntry* entry = &it->second;
  std::string who;
  if (entry->ServerOn(daemon) != nullptr) {
    if (part.has_shard() || part.has_rows()) who = absl::StrCat("server ", daemon);
  } else if (const JobNode* node = entry->NodeOn(daemon)) {
    const bool is_slices = part.has_shard() && entry->is_ring() && part.shard() == node->node();
    const bool is_weights =
        part.has_shard() && RanksKeepWeights(entry->job()) && part.shard() == 0 && node->HasRank(0);
    if (is_slices || is_weights || (part.has_node() && part.node() == node->node()))
      who = node->Describe();
    if (part.has_rank() && node->HasRank(part.rank())) {
      who = absl::StrFormat("rank %d on %s", part.rank(), daemon);
    }
  }
  if (who.empty()) return;
  entry->ledger().OnPart(who, part, entry->status().mutable_checkpoints());
  KeepIfWhole(entry, now);
  announcer_.AddNews(entry->id());
}

void JobTable::KeepIfWhole(JobEntry* entry, absl::Time now) {
  std::optional<CheckpointLedger::Whole> whole = entry->ledger().TakeWhole();
  if (!whole) return;
  actions_->KeepCheckpoint(
      MakeCheckpointToKeep(entry->id(), entry->job(), entry->ledger_record(), *whole, now));
}

void JobTable::OnCheckpointKept(JobId job, uint64_t clock, const absl::Status& kept,
                                absl::Time now) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  JobEntry* entry = &it->second;
  entry->ledger().OnKept(clock, kept, now, entry->status().mutable_checkpoints());
  const uint64_t step = clock * StepsPerClock(entry->job());
  if (kept.ok()) {
    LogInfo("job %d (%s): checkpoint of step %d is complete", job.value(), entry->job().name(),
            step);
  } else if (absl::IsOutOfRange(kept)) {
    LogInfo("job %d (%s): checkpoint of step %d: %s", job.value(), entry->job().name(), step,
            kept.message());
  } else {
    announcer_.Warn(absl::StrFormat("job %d (%s): checkpoint of step %d: %s", job.value(),
                                    entry->job().name(), step, kept.message()));
  }
  announcer_.Save(*entry).IgnoreError();  // repeated
  announcer_.AddNews(job);
  KeepIfWhole(entry, now);
  StartQueued(now);
}

}  // namespace strata::server
