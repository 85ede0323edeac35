#include "server/coordinator/placement/rank_allocation.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "common/require.h"

namespace strata::server {
namespace {

// A resource of which each rank needs one unit, and the workers' supply of it.
struct Supply {
  const char* name;  // "GPU slot"
  std::vector<WorkerSlots> workers;
};

uint32_t FreeSlots(const WorkerSlots& worker) {
  return worker.alive && worker.slots > worker.used ? worker.slots - worker.used : 0u;
}

Supply Slots(const std::vector<WorkerSlots>& workers) { return {"slot", workers}; }

Supply GpuSlots(const std::vector<WorkerSlots>& workers) {
  Supply supply = {"GPU slot", workers};
  for (WorkerSlots& worker : supply.workers) {
    worker.slots = worker.gpu_slots;
    worker.used = worker.gpu_slots_used;
  }
  return supply;
}

// Slots that have a GPU slot beside them.
Supply SlotsWithGpu(const std::vector<WorkerSlots>& workers) {
  Supply supply = {"slot with a GPU slot", workers};
  const std::vector<WorkerSlots> gpus = GpuSlots(workers).workers;
  for (size_t i = 0; i < workers.size(); ++i) {
    WorkerSlots& worker = supply.workers[i];
    const uint32_t free = std::min(FreeSlots(workers[i]), FreeSlots(gpus[i]));
    worker.slots = std::min(workers[i].slots, gpus[i].slots);
    worker.used = worker.slots - free;
  }
  return supply;
}

// Like Place, with a given number of ranks per node: largest first, on the workers with most, so
// that all fit if they can.
template <typename Available>
std::vector<RankBlock> PlaceNodes(const RankWish& wish, const std::vector<WorkerSlots>& workers,
                                  const Available& available) {
  std::vector<RankBlock> blocks(wish.of_nodes.size());
  std::vector<size_t> nodes(blocks.size()), by_slots(workers.size());
  for (size_t n = 0; n < blocks.size(); ++n) nodes[n] = n;
  for (size_t w = 0; w < workers.size(); ++w) by_slots[w] = w;
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](size_t a, size_t b) { return wish.of_nodes[a] > wish.of_nodes[b]; });
  std::stable_sort(by_slots.begin(), by_slots.end(), [&](size_t a, size_t b) {
    return available(workers[a]) > available(workers[b]);
  });
  for (size_t i = 0; i < nodes.size(); ++i) {
    const uint32_t ranks = wish.of_nodes[nodes[i]];
    if (i == workers.size() || available(workers[by_slots[i]]) < ranks) return {};
    blocks[nodes[i]] = {.daemon = workers[by_slots[i]].daemon,
                        .ranks = ranks,
                        .protocol = workers[by_slots[i]].protocol};
  }
  for (size_t n = 1; n < blocks.size(); ++n) {
    blocks[n].first_rank = blocks[n - 1].first_rank + blocks[n - 1].ranks;
  }
  return blocks;
}

// Returns where the ranks would go if `available(worker)` slots were free; fewer than `ranks` if
// they do not all fit.
template <typename Available>
std::vector<RankBlock> Place(const RankWish& wish, const std::vector<WorkerSlots>& workers,
                             const Available& available) {
  if (!wish.of_nodes.empty()) return PlaceNodes(wish, workers, available);
  std::vector<RankBlock> blocks;
  uint32_t placed = 0;
  for (const WorkerSlots& worker : workers) {
    if (placed == wish.ranks) break;
    const uint32_t wanted = wish.ranks_per_node == 0 ? available(worker) : wish.ranks_per_node;
    const uint32_t here = std::min(wanted, wish.ranks - placed);
    if (here == 0 || here > available(worker)) continue;
    blocks.push_back({.daemon = worker.daemon,
                      .first_rank = placed,
                      .ranks = here,
                      .protocol = worker.protocol});
    placed += here;
  }
  return blocks;
}

uint32_t Placed(const std::vector<RankBlock>& blocks) {
  return blocks.empty() ? 0 : blocks.back().first_rank + blocks.back().ranks;
}

// "1 slot", "2 GPU slots", "2 slots with a GPU slot"
std::string Count(uint32_t count, const Supply& supply) {
  std::string name = supply.name;
  if (count != 1) name.insert(name.find("slot") + 4, "s");
  return absl::StrCat(count, " ", name);
}

// "4 slots", "4 slots, 2 per node", "4 slots, 3 + 1 on its nodes as before"
std::string Needs(const RankWish& wish, const Supply& supply) {
  if (!wish.of_nodes.empty()) {
    return absl::StrFormat("%s, %s on its nodes as before", Count(wish.ranks, supply),
                           absl::StrJoin(wish.of_nodes, " + "));
  }
  if (wish.ranks_per_node == 0) return Count(wish.ranks, supply);
  return absl::StrFormat("%s, %d per node", Count(wish.ranks, supply),
                         std::min(wish.ranks, wish.ranks_per_node));
}

// "all 2 worker nodes together have 4 slots: w1 2, w2 2"
std::string Capacity(const Supply& supply) {
  constexpr size_t kNamesMax = 8;
  const std::vector<WorkerSlots>& workers = supply.workers;
  uint32_t slots = 0;
  std::string names;
  for (size_t i = 0; i < workers.size(); ++i) {
    slots += workers[i].slots;
    if (i < kNamesMax) {
      absl::StrAppend(&names, i == 0 ? "" : ", ", workers[i].daemon, " ", workers[i].slots,
                      workers[i].alive ? "" : " (lost)");
    }
  }
  if (workers.size() > kNamesMax) names += ", ...";
  return absl::StrFormat("%s %s: %s",
                         workers.size() == 1
                             ? "the one worker node has"
                             : absl::StrFormat("all %d worker nodes together have", workers.size()),
                         Count(slots, supply), names) +
         (slots == 0 ? "; `strata devices` there says why, unless --gpus does" : "");
}

// "needs 4 workers (ranks_per_node: 1); there are 2": too few workers that could take a node.
std::string TooFewWorkers(const RankWish& wish, const Supply& supply) {
  const uint32_t each = std::min(wish.ranks, wish.ranks_per_node);
  const uint32_t nodes = (wish.ranks + wish.ranks_per_node - 1) / wish.ranks_per_node;
  const auto able = std::count_if(supply.workers.begin(), supply.workers.end(),
                                  [&](const WorkerSlots& w) { return w.slots >= each; });
  const bool are_all = able == static_cast<int64_t>(supply.workers.size());
  return absl::StrFormat("needs %s%s (ranks_per_node: %d); there %s %d%s", Counted(nodes, "worker"),
                         are_all ? "" : absl::StrCat(" with ", Count(each, supply)),
                         wish.ranks_per_node, able == 1 ? "is" : "are", able,
                         are_all ? "" : absl::StrCat(" of ", supply.workers.size()));
}

RankAllocation Allocate(const RankWish& wish, const Supply& supply) {
  using Outcome = RankAllocation::Outcome;
  RankAllocation result;
  result.blocks = Place(wish, supply.workers, FreeSlots);
  const uint32_t placed = Placed(result.blocks);
  if (placed == wish.ranks) return result;
  result.blocks.clear();
  const std::string needs = Needs(wish, supply);
  const auto fits = [&](const auto& available) {
    return Placed(Place(wish, supply.workers, available)) == wish.ranks;
  };
  if (!fits([](const WorkerSlots& w) { return w.slots; })) {
    result.outcome = Outcome::kNeverFits;
    const bool none_has = std::none_of(
        supply.workers.begin(), supply.workers.end(),
        [&](const WorkerSlots& w) { return w.slots >= std::min(wish.ranks, wish.ranks_per_node); });
    const bool lacks_workers =
        wish.ranks_per_node > 0 && wish.of_nodes.empty() && !none_has && !supply.workers.empty();
    result.reason = lacks_workers
                        ? TooFewWorkers(wish, supply)
                        : absl::StrFormat("needs %s, but %s%s", needs,
                                          none_has ? "none has as many: " : "", Capacity(supply));
  } else if (!fits([](const WorkerSlots& w) { return w.alive ? w.slots : 0u; })) {
    result.outcome = Outcome::kWaitsForNodes;
    result.reason =
        absl::StrFormat("waits for lost worker nodes: needs %s; %s", needs, Capacity(supply));
  } else {
    uint32_t free_slots = 0, slots = 0;
    for (const WorkerSlots& worker : supply.workers) {
      free_slots += FreeSlots(worker);
      slots += worker.alive ? worker.slots : 0;
    }
    // "1 more free slot"
    std::string missing = Count(wish.ranks - placed, supply);
    missing.insert(missing.find(' '), " more free");
    result.outcome = Outcome::kWaitsForSlots;
    result.reason =
        absl::StrFormat("waits for %s: needs %s, %d of %d free", missing, needs, free_slots, slots);
  }
  return result;
}

// Names the one resource that is short; slots with a GPU slot only if there are enough of each, but
// not on the same nodes.
RankAllocation AllocateAmong(const RankWish& wish, const std::vector<WorkerSlots>& workers) {
  if (!wish.on_gpus) return Allocate(wish, Slots(workers));
  RankAllocation both = Allocate(wish, SlotsWithGpu(workers));
  if (both.outcome == RankAllocation::Outcome::kFits) return both;
  both.lacks_gpus = true;
  RankAllocation gpus = Allocate(wish, GpuSlots(workers));
  gpus.lacks_gpus = true;
  if (gpus.outcome == both.outcome) return gpus;
  RankAllocation slots = Allocate(wish, Slots(workers));
  return slots.outcome == both.outcome ? slots : both;
}

}  // namespace

RankWish ToRankWish(const proto::Job& job) {
  return {.ranks = job.ranks(),
          .ranks_per_node = job.ranks_per_node(),
          .on_gpus = job.device() == proto::Job::GPU};
}

uint32_t FreeFor(const RankWish& wish, const WorkerSlots& worker) {
  return FreeSlots(wish.on_gpus ? SlotsWithGpu({worker}).workers[0] : worker);
}

RankAllocation AllocateRanks(const RankWish& wish, const std::vector<WorkerSlots>& workers) {
  using Outcome = RankAllocation::Outcome;
  STRATA_REQUIRE(wish.ranks >= 1);
  std::map<uint32_t, std::vector<WorkerSlots>, std::greater<>> by_protocol;
  for (const WorkerSlots& worker : workers) by_protocol[worker.protocol].push_back(worker);
  if (by_protocol.size() < 2) return AllocateAmong(wish, workers);
  RankAllocation best{.outcome = Outcome::kNeverFits};
  for (const auto& [protocol, group] : by_protocol) {
    RankAllocation allocation = AllocateAmong(wish, group);
    if (allocation.outcome == Outcome::kFits) return allocation;
    if (!best.reason.empty() && allocation.outcome >= best.outcome) continue;
    best = std::move(allocation);
    absl::StrAppend(&best.reason, ", of those that speak protocol version ", protocol);
  }
  RankAllocation of_all = AllocateAmong(wish, workers);
  if (of_all.outcome == Outcome::kNeverFits) return of_all;
  if (best.outcome == Outcome::kNeverFits) best.outcome = Outcome::kWaitsForNodes;
  return best;
}

}  // namespace strata::server
