#include "server/coordinator/placement/reached_servers.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::server {

ReachedServers::Common ReachedServers::ByAll(const std::vector<std::string>& workers,
                                             absl::Time now) const {
  using State = Reachability::State;
  Common common;
  for (const Daemon* server : membership_->Alive(proto::SERVER)) {
    const std::string& name = server->registration.name();
    Reachability::Verdict worst;
    if (server->session == SessionId()) {
      worst = {State::kTrying, absl::StrFormat("waits for server %s to come back", name)};
    }
    for (const std::string& worker : workers) {
      const Reachability::Verdict verdict = reachability_->Between(worker, name, now);
      if (worst.state != State::kFailed && verdict.state != State::kReached) worst = verdict;
    }
    if (worst.state == State::kReached) common.reached.push_back(server);
    if (worst.state == State::kTrying) common.pending = worst.text;
    if (worst.state == State::kFailed) common.left_out.emplace_back(name, worst.text);
  }
  return common;
}

RankAllocation ReachedServers::Allocate(const RankWish& wish,
                                        const std::vector<WorkerSlots>& workers,
                                        absl::Time now) const {
  const std::vector<const Daemon*> servers = membership_->Alive(proto::SERVER);
  const auto allocate_on = [&](const std::vector<const Daemon*>& needed) {
    std::vector<WorkerSlots> able = workers;
    for (WorkerSlots& worker : able) {
      for (const Daemon* server : needed) {
        if (FreeFor(wish, worker) == 0) break;
        const auto reach = reachability_->Between(worker.daemon, server->registration.name(), now);
        if (reach.state == Reachability::State::kFailed) worker.used = worker.slots;
      }
    }
    return AllocateRanks(wish, able);
  };
  RankAllocation best = allocate_on(servers);
  if (best.outcome == RankAllocation::Outcome::kFits) return best;
  std::pair<size_t, uint32_t> most = {0, 0};  // servers, and the protocol version
  for (const Daemon* server : servers) {
    RankAllocation allocation = allocate_on({server});
    if (allocation.outcome != RankAllocation::Outcome::kFits) continue;
    const size_t left_out = ByAll(BlockDaemons(allocation.blocks), now).left_out.size();
    const std::pair<size_t, uint32_t> has = {servers.size() - left_out,
                                             allocation.blocks[0].protocol};
    if (has <= most) continue;
    most = has;
    best = std::move(allocation);
  }
  return best;
}

std::vector<std::string> BlockDaemons(const std::vector<RankBlock>& blocks) {
  std::vector<std::string> daemons;
  for (const RankBlock& block : blocks) daemons.push_back(block.daemon);
  return daemons;
}

namespace {

struct Reach {
  std::string why_not;   // why the worker cannot use the servers now; empty: it reaches them all
  bool is_tried = true;  // false: it may reach them soon
};

Reach ReachOf(const SpareWish& wish, const std::string& worker, const ReachedServers& reached,
              absl::Time now) {
  const ReachedServers::Common common = reached.ByAll({worker}, now);
  Reach reach;
  for (const std::string& server : wish.servers) {
    const auto failed =
        std::find_if(common.left_out.begin(), common.left_out.end(),
                     [&](const auto& left_out) { return left_out.first == server; });
    if (failed != common.left_out.end()) return {.why_not = failed->second};
    const bool is_reached =
        std::any_of(common.reached.begin(), common.reached.end(),
                    [&](const Daemon* daemon) { return daemon->registration.name() == server; });
    if (is_reached || !reach.is_tried) continue;
    reach = {.why_not = absl::StrFormat("worker %s tries to reach server %s", worker, server),
             .is_tried = false};
  }
  return reach;
}

}  // namespace

SpareWorker ChooseSpareWorker(const SpareWish& wish, std::vector<WorkerSlots> workers,
                              const ReachedServers& reached, absl::Time now) {
  if (workers.empty()) return {.reason = "no worker is there that plays no node of the job"};
  const auto rank_of = [&](const WorkerSlots& worker) {
    return worker.daemon == wish.first ? 0 : worker.daemon == wish.last ? 2 : 1;
  };
  std::stable_sort(workers.begin(), workers.end(),
                   [&](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  const RankWish ranks{.ranks = wish.ranks, .ranks_per_node = wish.ranks, .on_gpus = wish.on_gpus};
  std::string unreached;
  bool waits_for_reach = false;
  for (const WorkerSlots& worker : workers) {
    if (FreeFor(ranks, worker) < wish.ranks) continue;
    const Reach reach = ReachOf(wish, worker.daemon, reached, now);
    if (reach.why_not.empty()) return {.daemon = worker.daemon};
    if (unreached.empty()) unreached = reach.why_not;
    waits_for_reach |= !reach.is_tried && worker.daemon != wish.last;
  }
  if (!unreached.empty()) return {.reason = unreached, .waits_for_reach = waits_for_reach};
  const RankAllocation allocation = AllocateRanks(ranks, workers);
  return {.reason = absl::StrCat(allocation.reason, ", besides the job's own workers"),
          .waits_for_slots = allocation.outcome == RankAllocation::Outcome::kWaitsForSlots};
}

}  // namespace strata::server
