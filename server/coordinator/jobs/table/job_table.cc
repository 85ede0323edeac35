#include "server/coordinator/jobs/table/job_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/require.h"
#include "server/coordinator/jobs/ring_placement.h"
#include "server/coordinator/jobs/slot_use.h"

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
      commands_(membership, actions),
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
    entry.next_backup_at = now + options_.backup_pause;  // servers are on their way back
    jobs_.insert_or_assign(id, std::move(entry));
  }
  for (auto& [id, entry] : jobs_) {
    if (!entry.running() || entry.stage() == JobStage::kTraining) continue;
    life_.Fail("the coordinator was restarted while the job was starting", &entry, now);
  }
  StartQueued(now);
}

void JobTable::SettleOld(JobEntry* entry) const {
  proto::Job* job = entry->stored.mutable_record()->mutable_job();
  if (job->protection() != proto::Job::BY_CLUSTER) return;
  STRATA_REQUIRE(SettleProtection(options_.protection(), job).ok());
  entry->status().mutable_job()->set_protection(job->protection());
  if (job->protection() != proto::Job::PLAIN) {
    entry->stored.mutable_record()->set_secret(options_.new_secret());
  }
}

absl::StatusOr<JobId> JobTable::Submit(proto::Job job, const proto::ResumeFrom& resume,
                                       uint64_t token, absl::Time now, const Submitter& by) {
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
    entry.stored.mutable_record()->set_secret(options_.new_secret());
  }
  entry.status().set_owner(by.owner.user);
  entry.status().set_tenant(by.owner.tenant);
  const absl::Status saved = actions_->Persist(entry.stored);
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
    for (const JobNode& node : entry.nodes) here = here || node.daemon == daemon;
    for (const JobServer& server : entry.servers) here = here || server.daemon == daemon;
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
  const proto::JobStatus& status = it->second.stored.status();
  const bool has_part = std::any_of(status.nodes().begin(), status.nodes().end(), is_here) ||
                        std::any_of(status.shards().begin(), status.shards().end(), is_here) ||
                        std::any_of(status.shards().begin(), status.shards().end(), backs_up) ||
                        std::any_of(status.replacements().begin(), status.replacements().end(),
                                    [&](const auto& one) { return one.from() == daemon; });
  if (!has_part) return it->second.heard.contains(daemon) ? Part::kHad : Part::kNever;
  it->second.heard.insert(daemon);
  return Part::kHas;
}

void JobTable::StartQueued(absl::Time now) {
  for (auto& [id, entry] : jobs_) {
    if (entry.stage() == JobStage::kStarting && entry.all_ready()) life_.Install(&entry, now);
  }
  const bool may_return = is_restart_ && now - started_at_ < options_.restart_patience;
  const JobEntry* blocker = nullptr;
  // Before jobs that have not begun.
  for (auto& [id, entry] : jobs_) {
    if (replacer_.PlaceWaiting(may_return, &entry, now) && blocker == nullptr) blocker = &entry;
  }
  for (auto& [id, entry] : jobs_) views_.LeaveStandIns(&entry, now);
  UserSlots slots(options_.slots_of_user, jobs_);
  for (auto& [id, entry] : jobs_) {
    if (!entry.queued() || HoldsBack(&entry, now)) continue;
    // It holds nobody up: what it waits for is its own user's.
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
    } else if (verdict.kind == Kind::kFails && entry.stored.status().restarts().empty()) {
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
    if (message.is_damaged() && entry->stored.record().has_resume()) {
      life_.GoOnFromEarlier(reason, entry, now);
    } else {
      life_.Fail(reason, entry, now);
    }
    StartQueued(now);
    return;
  }
  server->installed = true;
  const bool all_installed = std::all_of(entry->servers.begin(), entry->servers.end(),
                                         [](const JobServer& s) { return s.installed; });
  if (all_installed) life_.Train(entry, now);
}

void JobTable::OnLinkMeasured(const std::string& daemon, const proto::LinkMeasured& message,
                              absl::Time now) {
  JobEntry* entry = FindRunning(message);
  JobNode* node = entry == nullptr ? nullptr : entry->NodeOn(daemon);
  if (node == nullptr || entry->stage() != JobStage::kMeasuring || node->link) return;
  // The rate is to be divided by.
  if (!(message.bytes_per_s() > 0) || !(message.latency_us() >= 0)) return;
  node->link = message;
  const bool all_measured = std::all_of(entry->nodes.begin(), entry->nodes.end(),
                                        [](const JobNode& n) { return n.link.has_value(); });
  if (!all_measured) return;
  ChooseRingAlgorithm(entry);
  life_.Train(entry, now);
}

void JobTable::OnRankReport(const std::string& daemon, const proto::RankReport& report,
                            absl::Time now) {
  JobEntry* entry = FindRunning(report);
  if (entry == nullptr) return;
  reports_.OnRankReport(daemon, report, entry, now);
  const JobNode* node = entry->NodeOn(daemon);
  const bool trains = node != nullptr && entry->stage() == JobStage::kTraining;
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
    for (JobNode& node : entry.nodes) {
      node.missing_since = Excused(node.missing_since, gap, now);
      node.waits_since = Excused(node.waits_since, gap, now);
    }
    entry.waits.Excuse(gap, now);
    entry.ring.Excuse(gap, now);
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
  size_t ended = std::count_if(jobs_.begin(), jobs_.end(),
                               [](const auto& item) { return item.second.ended(); });
  for (auto it = jobs_.begin(); it != jobs_.end() && ended > options_.ended_max;) {
    if (!it->second.ended()) {
      ++it;
      continue;
    }
    announcer_.Forget(it->first);
    it = jobs_.erase(it);
    --ended;
  }
}

JobEntry* JobTable::FindRunning(uint32_t job) {
  const auto it = jobs_.find(JobId(job));
  return it == jobs_.end() || !it->second.running() ? nullptr : &it->second;
}

}  // namespace strata::server
