#include "server/coordinator/jobs/find_worker.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace strata::server {

SpareWorker FindWorker(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                       const ReachedServers& reached, absl::Time now) {
  SpareWish wish{.ranks = node.ranks,
                 .on_gpus = entry.on_gpus(),
                 .first = node.takes_first,
                 .last = node.takes_last};
  for (const JobServer& server : entry.servers) wish.servers.push_back(server.daemon);
  std::vector<WorkerSlots> workers = queue.Workers();
  std::erase_if(workers, [&](const WorkerSlots& worker) {
    return std::any_of(entry.nodes.begin(), entry.nodes.end(),
                       [&](const JobNode& other) { return other.daemon == worker.daemon; });
  });
  return ChooseSpareWorker(wish, std::move(workers), reached, now);
}

}  // namespace strata::server
