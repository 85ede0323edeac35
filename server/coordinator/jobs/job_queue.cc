#include "server/coordinator/jobs/job_queue.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/require.h"
#include "server/coordinator/jobs/slot_use.h"

namespace strata::server {
namespace {

// A node that resumes from its own state keeps its number of ranks; nodes that may join and leave
// do not.
RankWish WishOf(const JobEntry& entry) {
  RankWish wish = ToRankWish(entry.job());
  const proto::JobRecord& from = entry.stored().resume().from();
  const bool has_state = NodesKeepState(from.job()) && !entry.is_elastic();
  if (!entry.stored().record().has_resume() || !has_state) return wish;
  for (const proto::LogicalNode& node : from.view().nodes()) {
    wish.of_nodes.push_back(node.ranks());
  }
  return wish;
}

// Returns what the job can start with, best first: a job whose nodes may leave resumes with what
// there is, once it has started.
std::vector<RankWish> WishesOf(const JobEntry& entry) {
  std::vector<RankWish> wishes = {WishOf(entry)};
  if (!entry.is_elastic() || !entry.stored().resume().has_trained()) return wishes;
  RankWish wish = wishes.front();
  while (wish.ranks > wish.ranks_per_node &&
         wish.ranks - wish.ranks_per_node >= entry.job().ranks_min()) {
    wish.ranks -= wish.ranks_per_node;
    wishes.push_back(wish);
  }
  return wishes;
}

SpareWish WishOf(const JobNode& node, const JobEntry& entry) {
  SpareWish wish{.ranks = node.ranks(),
                 .on_gpus = entry.on_gpus(),
                 .first = node.takes_first(),
                 .last = node.takes_last()};
  for (const JobServer& server : entry.servers()) wish.servers.push_back(server.daemon);
  return wish;
}

// Returns the workers that could run a node of the job, and run none yet.
std::vector<WorkerSlots> WithoutThoseOf(const JobEntry& entry, std::vector<WorkerSlots> workers) {
  std::erase_if(workers, [&](const WorkerSlots& worker) {
    if (worker.protocol != entry.protocol()) return true;
    return std::any_of(entry.nodes().begin(), entry.nodes().end(),
                       [&](const JobNode& other) { return other.daemon() == worker.daemon; });
  });
  return workers;
}

}  // namespace

using Kind = JobQueue::Verdict::Kind;

JobQueue::JobQueue(absl::Duration settle_after, const std::map<JobId, JobEntry>* jobs,
                   const Membership* membership, const ReachedServers* reached)
    : settle_after_(settle_after), jobs_(jobs), membership_(membership), reached_(reached) {}

void JobQueue::Excuse(absl::Duration gap, absl::Time now) {
  worker_joined_at_ = Excused(worker_joined_at_, gap, now);
}

JobQueue::Verdict JobQueue::Decide(const JobEntry& entry, bool may_return, absl::Time now) const {
  STRATA_REQUIRE(entry.queued());
  const std::vector<WorkerSlots> workers = Workers();
  if (workers.empty()) {
    const bool some_stand_in = !membership_->Alive(proto::WORKER).empty();
    return {Kind::kWaits,
            some_stand_in ? "waits for a worker node: those that are there only stand in"
                          : "waits for a worker node: none has registered",
            {}};
  }
  const std::vector<RankWish> wishes = WishesOf(entry);
  const auto fits = std::find_if(wishes.begin(), wishes.end(), [&](const RankWish& wish) {
    return AllocateRanks(wish, workers).outcome == RankAllocation::Outcome::kFits;
  });
  const RankWish& wish = fits == wishes.end() ? wishes.front() : *fits;
  const RankAllocation allocation = AllocateRanks(wish, workers);
  switch (allocation.outcome) {
    case RankAllocation::Outcome::kFits:
      if (entry.needs_servers() && membership_->Alive(proto::SERVER).empty()) {
        return {Kind::kWaits, "waits for a server: none is alive", {}};
      }
      return StartWhereReached(wish, entry, workers, now);
    case RankAllocation::Outcome::kWaitsForSlots: {
      const SlotKind kind = allocation.lacks_gpus ? SlotKind::kGpu : SlotKind::kAny;
      const std::string holders = DescribeHolders(kind, entry, *jobs_);
      return {
          Kind::kBlocks, absl::StrCat(allocation.reason, holders.empty() ? "" : "; ", holders), {}};
    }
    case RankAllocation::Outcome::kWaitsForNodes:
      return {Kind::kWaits, allocation.reason, {}};
    case RankAllocation::Outcome::kNeverFits:
      if (now - worker_joined_at_ >= settle_after_ && !may_return) {
        return {Kind::kFails, absl::StrCat("can never fit: ", allocation.reason), {}};
      }
      return {Kind::kWaits, absl::StrCat(allocation.reason, "; fails unless more join soon"), {}};
  }
  return {};
}

JobQueue::Verdict JobQueue::StartWhereReached(const RankWish& wish, const JobEntry& entry,
                                              const std::vector<WorkerSlots>& workers,
                                              absl::Time now) const {
  if (!entry.needs_servers()) {
    const RankAllocation allocation = AllocateRanks(wish, workers);
    STRATA_REQUIRE(allocation.outcome == RankAllocation::Outcome::kFits);
    return {Kind::kStarts, "", allocation.blocks};
  }
  const RankAllocation allocation = reached_->Allocate(wish, workers, now);
  if (allocation.outcome == RankAllocation::Outcome::kFits) {
    const std::string pending = reached_->ByAll(BlockDaemons(allocation.blocks), now).pending;
    if (!pending.empty()) return {Kind::kWaits, pending, {}};
    return {Kind::kStarts, "", allocation.blocks};
  }
  for (const WorkerSlots& worker : workers) {
    const ReachedServers::Common common = reached_->ByAll({worker.daemon}, now);
    if (FreeFor(wish, worker) == 0 || common.left_out.empty()) continue;
    return {Kind::kWaits, common.left_out[0].second, {}};
  }
  return {};
}

WorkerSlots JobQueue::SlotsOf(const Daemon& daemon, bool takes_more) const {
  const proto::Register& registration = daemon.registration;
  const std::string& name = registration.name();
  const uint32_t slots = registration.slots(), gpu_slots = CountGpuSlots(registration);
  return {.daemon = name,
          .slots = slots,
          .used = takes_more ? SlotsHeldOn(name, SlotKind::kAny, *jobs_) : slots,
          .alive = daemon.alive,
          .gpu_slots = gpu_slots,
          .gpu_slots_used = takes_more ? SlotsHeldOn(name, SlotKind::kGpu, *jobs_) : gpu_slots,
          .protocol = registration.protocol_version()};
}

std::vector<WorkerSlots> JobQueue::Workers() const {
  std::vector<WorkerSlots> workers;
  for (const Daemon* daemon : membership_->All()) {
    const proto::Register& registration = daemon->registration;
    if (registration.role() != proto::WORKER || registration.stands_in()) continue;
    const bool draining = membership_->IsDraining(registration.name());
    // A worker whose connection has just ended takes no new job until it is back.
    const bool takes_more = daemon->session != SessionId() && !draining;
    workers.push_back(SlotsOf(*daemon, takes_more));
    if (draining) workers.back().alive = false;
  }
  return workers;
}

std::vector<WorkerSlots> JobQueue::StandIns() const {
  std::vector<WorkerSlots> stand_ins;
  for (const Daemon* daemon : membership_->Alive(proto::WORKER)) {
    if (!membership_->StandsIn(daemon->registration.name())) continue;
    stand_ins.push_back(SlotsOf(*daemon, /*takes_more=*/daemon->session != SessionId()));
  }
  return stand_ins;
}

SpareWorker FindWorker(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                       const ReachedServers& reached, absl::Time now) {
  std::vector<WorkerSlots> workers = queue.Workers();
  const bool some_differ =
      std::any_of(workers.begin(), workers.end(),
                  [&](const WorkerSlots& worker) { return worker.protocol != entry.protocol(); });
  workers = WithoutThoseOf(entry, std::move(workers));
  if (workers.empty() && some_differ) {
    return {.reason = absl::StrFormat(
                "no other worker speaks protocol version %d, as those of the job do",
                entry.protocol())};
  }
  const SpareWorker worker =
      ChooseSpareWorker(WishOf(node, entry), std::move(workers), reached, now);
  const bool trains = !node.daemon().empty();
  if (!trains || worker.daemon.empty() || worker.daemon != node.takes_last()) return worker;
  return {.reason = absl::StrFormat("it has failed on worker %s, and no other one has room",
                                    worker.daemon)};
}

SpareWorker FindWorkerOrStandIn(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                                const ReachedServers& reached, absl::Time now) {
  SpareWorker worker = FindWorker(node, entry, queue, reached, now);
  const bool is_last = !worker.daemon.empty() && worker.daemon == node.takes_last();
  if (worker.waits_for_reach || (!worker.daemon.empty() && !is_last)) return worker;
  std::vector<WorkerSlots> stand_ins = WithoutThoseOf(entry, queue.StandIns());
  // Failures there are not counted: trying one after the other would never end.
  const bool has_failed =
      std::any_of(stand_ins.begin(), stand_ins.end(),
                  [&](const WorkerSlots& one) { return one.daemon == node.takes_last(); });
  if (has_failed) return worker;
  const RankWish ranks{.ranks = node.ranks(), .on_gpus = entry.on_gpus()};
  std::stable_sort(stand_ins.begin(), stand_ins.end(), [&](const auto& a, const auto& b) {
    return FreeFor(ranks, a) > FreeFor(ranks, b);
  });
  SpareWorker stand_in = ChooseSpareWorker(WishOf(node, entry), std::move(stand_ins), reached, now);
  const bool may_do = !stand_in.daemon.empty() || (is_last && stand_in.waits_for_reach);
  return may_do ? stand_in : worker;
}

}  // namespace strata::server
