#include "server/coordinator/jobs/find_worker.h"

#include <algorithm>
#include <utility>
#include <vector>

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

std::vector<WorkerSlots> WithoutThoseOf(const JobEntry& entry, std::vector<WorkerSlots> workers) {
  std::erase_if(workers, [&](const WorkerSlots& worker) {
    return std::any_of(entry.nodes.begin(), entry.nodes.end(),
                       [&](const JobNode& other) { return other.daemon == worker.daemon; });
  });
  return workers;
}

}  // namespace

SpareWorker FindWorker(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                       const ReachedServers& reached, absl::Time now) {
  return ChooseSpareWorker(WishOf(node, entry), WithoutThoseOf(entry, queue.Workers()), reached,
                           now);
}

SpareWorker FindWorkerOrStandIn(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                                const ReachedServers& reached, absl::Time now) {
  SpareWorker worker = FindWorker(node, entry, queue, reached, now);
  if (!worker.daemon.empty()) return worker;
  std::vector<WorkerSlots> stand_ins = WithoutThoseOf(entry, queue.StandIns());
  // Failing there once more would end the job, which may as well wait: but not for a worker that a
  // node has which is to join, and does so once all others train.
  const bool some_join = std::any_of(entry.nodes.begin(), entry.nodes.end(),
                                     [](const JobNode& other) { return other.joins; });
  std::erase_if(stand_ins, [&](const WorkerSlots& one) {
    return one.daemon == node.takes_last && !some_join;
  });
  const RankWish ranks{.ranks = node.ranks, .on_gpus = entry.on_gpus()};
  std::stable_sort(stand_ins.begin(), stand_ins.end(), [&](const auto& a, const auto& b) {
    return FreeFor(ranks, a) > FreeFor(ranks, b);
  });
  SpareWorker stand_in = ChooseSpareWorker(WishOf(node, entry), std::move(stand_ins), reached, now);
  return stand_in.daemon.empty() ? worker : stand_in;
}

}  // namespace strata::server
