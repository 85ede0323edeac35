#include "server/coordinator/rank_allocation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

// Where the ranks would go if `available(worker)` slots were free; fewer than `ranks` when they do
// not all fit.
template <typename Available>
std::vector<RankBlock> Place(uint32_t ranks, uint32_t ranks_per_node,
                             const std::vector<WorkerSlots>& workers, const Available& available) {
  std::vector<RankBlock> blocks;
  uint32_t placed = 0;
  for (const WorkerSlots& worker : workers) {
    if (placed == ranks) break;
    const uint32_t wanted = ranks_per_node == 0 ? available(worker) : ranks_per_node;
    const uint32_t here = std::min(wanted, ranks - placed);
    if (here == 0 || here > available(worker)) continue;
    blocks.push_back({.daemon = worker.daemon, .first_rank = placed, .ranks = here});
    placed += here;
  }
  return blocks;
}

uint32_t Placed(const std::vector<RankBlock>& blocks) {
  return blocks.empty() ? 0 : blocks.back().first_rank + blocks.back().ranks;
}

std::string Slots(uint32_t count) { return absl::StrCat(count, count == 1 ? " slot" : " slots"); }

// "4 slots", "4 slots, 2 per node"
std::string Needs(uint32_t ranks, uint32_t ranks_per_node) {
  if (ranks_per_node == 0) return Slots(ranks);
  return absl::StrFormat("%s, %d per node", Slots(ranks), std::min(ranks, ranks_per_node));
}

// "the 2 worker nodes have 4 slots: w1 2, w2 2"
std::string Capacity(const std::vector<WorkerSlots>& workers) {
  constexpr size_t kNamesMax = 8;
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
                         Slots(slots), names);
}

}  // namespace

RankAllocation AllocateRanks(uint32_t ranks, uint32_t ranks_per_node,
                             const std::vector<WorkerSlots>& workers) {
  using Outcome = RankAllocation::Outcome;
  const auto free = [](const WorkerSlots& w) {
    return w.alive && w.slots > w.used ? w.slots - w.used : 0u;
  };
  RankAllocation result;
  result.blocks = Place(ranks, ranks_per_node, workers, free);
  const uint32_t placed = Placed(result.blocks);
  if (placed == ranks) return result;
  result.blocks.clear();
  const std::string needs = Needs(ranks, ranks_per_node);
  const auto fits = [&](const auto& available) {
    return Placed(Place(ranks, ranks_per_node, workers, available)) == ranks;
  };
  if (!fits([](const WorkerSlots& w) { return w.slots; })) {
    result.outcome = Outcome::kNeverFits;
    const bool none_has = std::none_of(workers.begin(), workers.end(), [&](const WorkerSlots& w) {
      return w.slots >= std::min(ranks, ranks_per_node);
    });
    result.reason = absl::StrFormat("needs %s, but %s%s", needs,
                                    none_has ? "none has as many: " : "", Capacity(workers));
  } else if (!fits([](const WorkerSlots& w) { return w.alive ? w.slots : 0u; })) {
    result.outcome = Outcome::kWaitsForNodes;
    result.reason =
        absl::StrFormat("waits for lost worker nodes: needs %s; %s", needs, Capacity(workers));
  } else {
    uint32_t free_slots = 0, slots = 0;
    for (const WorkerSlots& worker : workers) {
      free_slots += free(worker);
      slots += worker.alive ? worker.slots : 0;
    }
    result.outcome = Outcome::kWaitsForSlots;
    result.reason =
        absl::StrFormat("waits for %d more free %s: needs %s, %d of %d free", ranks - placed,
                        ranks - placed == 1 ? "slot" : "slots", needs, free_slots, slots);
  }
  return result;
}

}  // namespace strata::server
