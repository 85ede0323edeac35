// The part of JobTable that decides which queued job starts, and where.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/coordinator/jobs/job_table.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::server {

void JobTable::StartQueued(absl::Time now) {
  for (auto& [id, entry] : jobs_) {
    if (entry.phase == JobPhase::kStarting && entry.all_ready()) Install(&entry, now);
  }
  JobId first_waiting;
  for (auto& [id, entry] : jobs_) {
    if (entry.state() != proto::QUEUED) continue;
    if (first_waiting != JobId()) {
      SetReason(&entry, absl::StrCat("waits behind job ", first_waiting.value()));
    } else if (!StartOrWait(&entry, now)) {
      first_waiting = id;
    }
  }
}

// False when the job waits for slots that running jobs hold: it is then first in the queue.
bool JobTable::StartOrWait(JobEntry* entry, absl::Time now) {
  const std::vector<WorkerSlots> workers = Workers();
  if (workers.empty()) {
    SetReason(entry, "waits for a worker node: none has registered");
    return true;
  }
  const RankAllocation allocation = AllocateRanks(WishOf(entry->job()), workers);
  switch (allocation.outcome) {
    case RankAllocation::Outcome::kFits:
      if (entry->needs_servers() && membership_->Alive(proto::SERVER).empty()) {
        SetReason(entry, "waits for a server: none is alive");
      } else {
        StartWhereReached(entry, workers, now);
      }
      return true;
    case RankAllocation::Outcome::kWaitsForSlots: {
      const std::string holders = Holders(allocation.lacks_gpus);
      SetReason(entry, absl::StrCat(allocation.reason, holders.empty() ? "" : "; ", holders));
      return false;
    }
    case RankAllocation::Outcome::kWaitsForNodes:
      SetReason(entry, allocation.reason);
      return true;
    case RankAllocation::Outcome::kNeverFits: {
      const bool settled = now - worker_joined_at_ >= options_.settle_after &&
                           (!is_restart_ || now - started_at_ >= options_.restart_patience);
      if (settled) {
        Fail(entry, absl::StrCat("can never fit: ", allocation.reason), now);
      } else {
        SetReason(entry, absl::StrCat(allocation.reason, "; fails unless more join soon"));
      }
      return true;
    }
  }
  return true;
}

void JobTable::Start(JobEntry* entry, const std::vector<RankBlock>& blocks, absl::Time now) {
  entry->SetView(blocks);
  if (entry->is_ring()) {
    const absl::Status status = CheckRing(*entry);
    if (!status.ok()) return Fail(entry, std::string(status.message()), now);
  }
  entry->phase = JobPhase::kStarting;
  entry->status().set_state(proto::RUNNING);
  entry->status().set_started_ms(absl::ToUnixMillis(now));
  entry->status().set_reason("starts its ranks");
  const absl::Status saved = Save(entry);
  if (!saved.ok()) return Fail(entry, NotSaved(saved), now);
  for (const JobNode& node : entry->nodes) SendStart(*entry, node);
  NotifyStatus(entry);
}

std::vector<WorkerSlots> JobTable::Workers() const {
  std::vector<WorkerSlots> workers;
  for (const Daemon* daemon : membership_->All()) {
    if (daemon->registration.role() != proto::WORKER) continue;
    // One whose connection has just ended takes no new job until it is back.
    const bool connected = daemon->session != SessionId();
    const proto::Register& registration = daemon->registration;
    const uint32_t slots = registration.slots(), gpu_slots = GpuSlotsOf(registration);
    const std::string& name = registration.name();
    workers.push_back({.daemon = name,
                       .slots = slots,
                       .used = connected ? SlotsUsedOn(name) : slots,
                       .alive = daemon->alive,
                       .gpu_slots = gpu_slots,
                       .gpu_slots_used = connected ? GpuSlotsUsedOn(name) : gpu_slots});
  }
  return workers;
}

// "job 3 holds 2, job 4 holds 1"
std::string JobTable::Holders(bool of_gpus) const {
  constexpr int kNamesMax = 6;
  std::string holders;
  int count = 0;
  for (const auto& [id, entry] : jobs_) {
    if (!entry.running() || (of_gpus && !entry.on_gpus())) continue;
    if (++count > kNamesMax) return holders + ", ...";
    absl::StrAppend(&holders, holders.empty() ? "" : ", ", "job ", id.value(), " holds ",
                    entry.job().ranks());
  }
  return holders;
}

uint32_t JobTable::RanksOn(const std::string& daemon, bool of_gpus) const {
  uint32_t ranks = 0;
  for (const auto& [id, entry] : jobs_) {
    if (!entry.running() || (of_gpus && !entry.on_gpus())) continue;
    for (const JobNode& node : entry.nodes) {
      if (node.daemon == daemon && !node.finished) ranks += node.ranks;
    }
  }
  return ranks;
}

uint32_t JobTable::SlotsUsedOn(const std::string& daemon) const {
  return RanksOn(daemon, /*of_gpus=*/false);
}

uint32_t JobTable::GpuSlotsUsedOn(const std::string& daemon) const {
  return RanksOn(daemon, /*of_gpus=*/true);
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

bool JobTable::IsPlaced(JobId job, const std::string& daemon) const {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return job.value() > 0 && job.value() < next_job_id_;
  const auto is_here = [&](const auto& part) { return part.daemon() == daemon; };
  const proto::JobStatus& status = it->second.stored.status();
  return std::any_of(status.nodes().begin(), status.nodes().end(), is_here) ||
         std::any_of(status.shards().begin(), status.shards().end(), is_here);
}

}  // namespace strata::server
