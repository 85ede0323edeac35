#include "compare/campaign/cluster_size.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::compare {
namespace {

uint64_t SumOf(const std::vector<uint32_t>& slots) {
  return std::accumulate(slots.begin(), slots.end(), uint64_t{0});
}

uint32_t At(const std::vector<uint32_t>& counts, size_t i) {
  return i < counts.size() ? counts[i] : 0;
}

std::vector<server::WorkerSlots> WorkersOf(const ClusterSize& size, bool with_used) {
  std::vector<server::WorkerSlots> workers;
  for (size_t i = 0; i < size.slots.size(); ++i) {
    workers.push_back({.daemon = absl::StrCat("w", i),
                       .slots = size.slots[i],
                       .used = with_used ? At(size.used, i) : 0,
                       .gpu_slots = At(size.gpu_slots, i),
                       .gpu_slots_used = with_used ? At(size.gpu_slots_used, i) : 0});
  }
  return workers;
}

}  // namespace

ClusterSize MeasureCluster(const proto::ListNodesReply& nodes) {
  ClusterSize size;
  for (const proto::DaemonStatus& daemon : nodes.daemons()) {
    if (!daemon.alive() || daemon.stands_in()) continue;
    if (daemon.role() == proto::WORKER) {
      size.slots.push_back(daemon.slots());
      size.used.push_back(daemon.slots_used());
      size.gpu_slots.push_back(daemon.gpu_slots());
      size.gpu_slots_used.push_back(daemon.gpu_slots_used());
    }
    if (daemon.role() != proto::SERVER) continue;
    ++size.servers;
    size.shards += daemon.shard_ports_size();
  }
  return size;
}

std::string Words(const ClusterSize& size) {
  const uint64_t gpu_slots = SumOf(size.gpu_slots);
  const std::string gpus =
      gpu_slots > 0 ? absl::StrCat(" and ", Counted(gpu_slots, "GPU slot")) : "";
  return absl::StrCat(Counted(size.servers, "server"), " with ", Counted(size.shards, "shard"),
                      ", ", Counted(size.slots.size(), "worker"), " with ",
                      Counted(SumOf(size.slots), "slot"), gpus);
}

size_t JobsAtOnce(const proto::Job& job, const ClusterSize& size) {
  const server::RankWish wish = server::ToRankWish(job);
  std::vector<server::WorkerSlots> workers = WorkersOf(size, /*with_used=*/true);
  for (size_t jobs = 0;; ++jobs) {
    const server::RankAllocation allocation = server::AllocateRanks(wish, workers);
    if (allocation.outcome != server::RankAllocation::Outcome::kFits) return jobs;
    for (const server::RankBlock& block : allocation.blocks) {
      const auto worker = std::find_if(workers.begin(), workers.end(), [&](const auto& each) {
        return each.daemon == block.daemon;
      });
      worker->used += block.ranks;
      if (wish.on_gpus) worker->gpu_slots_used += block.ranks;
    }
  }
}

absl::Status CheckFits(const proto::Job& job, const ClusterSize& size) {
  const bool needs_server = job.exchange() == proto::Job::PARAMETER_SERVER;
  if (needs_server && size.servers == 0) {
    return absl::InvalidArgumentError(
        "exchange: PARAMETER_SERVER needs a server, and there is none");
  }
  const server::RankAllocation allocation =
      server::AllocateRanks(server::ToRankWish(job), WorkersOf(size, /*with_used=*/false));
  if (allocation.outcome != server::RankAllocation::Outcome::kFits) {
    if (allocation.lacks_gpus) {
      return absl::InvalidArgumentError(absl::StrCat("device: GPU: ", allocation.reason));
    }
    if (job.ranks_per_node() > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("ranks: ", job.ranks(), ": ", allocation.reason));
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("ranks: %d do not fit on %s", job.ranks(), Words(size)));
  }
  const size_t nodes = allocation.blocks.size();
  // Ranks of a program may share one.
  const bool needs_two = job.exchange() == proto::Job::RING && !job.has_program();
  if (needs_two && size.slots.size() < 2) {
    return absl::InvalidArgumentError(
        "exchange: RING needs two nodes, but the cluster has one (--nodes 2 has two)");
  }
  if (needs_two && nodes < 2) {
    return absl::InvalidArgumentError(
        absl::StrFormat("exchange: RING needs two nodes, but all %d ranks are on one: more nodes, "
                        "or ranks_per_node, spread them",
                        job.ranks()));
  }
  for (const proto::Delay& delay : job.debug().delays()) {
    if (delay.node() < nodes) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("debug.delays: there is no node %d: the job has %s, from 0", delay.node(),
                        Counted(nodes, "node")));
  }
  return absl::OkStatus();
}

}  // namespace strata::compare
