#include "server/coordinator/placement/spare_worker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

struct Reach {
  std::string why_not;   // the worker does not do for the servers now; empty: it reaches them all
  bool is_tried = true;  // or else it may soon
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
