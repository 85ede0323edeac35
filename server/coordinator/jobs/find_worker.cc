#include "server/coordinator/jobs/find_worker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

SpareWish WishOf(const JobNode& node, const JobEntry& entry) {
  SpareWish wish{.ranks = node.ranks,
                 .on_gpus = entry.on_gpus(),
                 .first = node.takes_first,
                 .last = node.takes_last};
  for (const JobServer& server : entry.servers) wish.servers.push_back(server.daemon);
  return wish;
}

// Those that could play a node of the job, and play none.
std::vector<WorkerSlots> WithoutThoseOf(const JobEntry& entry, std::vector<WorkerSlots> workers) {
  std::erase_if(workers, [&](const WorkerSlots& worker) {
    if (worker.protocol != entry.protocol()) return true;
    return std::any_of(entry.nodes.begin(), entry.nodes.end(),
                       [&](const JobNode& other) { return other.daemon == worker.daemon; });
  });
  return workers;
}

}  // namespace

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
  const bool trains = !node.daemon.empty();
  if (!trains || worker.daemon.empty() || worker.daemon != node.takes_last) return worker;
  return {.reason = absl::StrFormat("it has failed on worker %s, and no other one has room",
                                    worker.daemon)};
}

SpareWorker FindWorkerOrStandIn(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                                const ReachedServers& reached, absl::Time now) {
  SpareWorker worker = FindWorker(node, entry, queue, reached, now);
  const bool is_last = !worker.daemon.empty() && worker.daemon == node.takes_last;
  if (worker.waits_for_reach || (!worker.daemon.empty() && !is_last)) return worker;
  std::vector<WorkerSlots> stand_ins = WithoutThoseOf(entry, queue.StandIns());
  // Nothing counts the failures there: one after another would try for ever.
  const bool has_failed =
      std::any_of(stand_ins.begin(), stand_ins.end(),
                  [&](const WorkerSlots& one) { return one.daemon == node.takes_last; });
  if (has_failed) return worker;
  const RankWish ranks{.ranks = node.ranks, .on_gpus = entry.on_gpus()};
  std::stable_sort(stand_ins.begin(), stand_ins.end(), [&](const auto& a, const auto& b) {
    return FreeFor(ranks, a) > FreeFor(ranks, b);
  });
  SpareWorker stand_in = ChooseSpareWorker(WishOf(node, entry), std::move(stand_ins), reached, now);
  const bool may_do = !stand_in.daemon.empty() || (is_last && stand_in.waits_for_reach);
  return may_do ? stand_in : worker;
}

}  // namespace strata::server
