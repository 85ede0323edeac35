#include "server/coordinator/placement/spare_worker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

// Why the worker does not do for the servers now, in words; empty: it reaches them all.
std::string WhyUnreached(const SpareWish& wish, const std::string& worker,
                         const ReachedServers& reached, absl::Time now) {
  const ReachedServers::Common common = reached.ByAll({worker}, now);
  for (const std::string& server : wish.servers) {
    const auto failed =
        std::find_if(common.left_out.begin(), common.left_out.end(),
                     [&](const auto& left_out) { return left_out.first == server; });
    if (failed != common.left_out.end()) return failed->second;
    const bool is_reached =
        std::any_of(common.reached.begin(), common.reached.end(),
                    [&](const Daemon* daemon) { return daemon->registration.name() == server; });
    if (!is_reached) return absl::StrFormat("worker %s tries to reach server %s", worker, server);
  }
  return "";
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
  for (const WorkerSlots& worker : workers) {
    if (FreeFor(ranks, worker) < wish.ranks) continue;
    const std::string why = WhyUnreached(wish, worker.daemon, reached, now);
    if (why.empty()) return {.daemon = worker.daemon};
    if (unreached.empty()) unreached = why;
  }
  if (!unreached.empty()) return {.reason = unreached};
  const RankAllocation allocation = AllocateRanks(ranks, workers);
  return {.reason = absl::StrCat(allocation.reason, ", besides the job's own workers"),
          .waits_for_slots = allocation.outcome == RankAllocation::Outcome::kWaitsForSlots};
}

}  // namespace strata::server
