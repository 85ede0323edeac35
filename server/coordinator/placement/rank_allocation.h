#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_RANK_ALLOCATION_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_RANK_ALLOCATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/job/job.h"
#include "proto/job.pb.h"

namespace strata::server {

// A worker node as the allocation sees it.
struct WorkerSlots {
  std::string daemon;
  uint32_t slots = 0;
  uint32_t used = 0;
  bool alive = true;  // a lost one counts towards future capacity only
  uint32_t gpu_slots = 0;
  uint32_t gpu_slots_used = 0;
  uint32_t protocol = kProtocolVersion;
};

// The ranks that a job asks for.
struct RankWish {
  uint32_t ranks = 1;
  uint32_t ranks_per_node = 0;  // 0: as many as a node has free
  bool on_gpus = false;         // each rank also takes a GPU slot of its node
  // Exact ranks of each logical node; empty: they follow from the other fields.
  std::vector<uint32_t> of_nodes;
};
RankWish ToRankWish(const proto::Job& job);

// Returns how many ranks of such a wish the worker could take now.
uint32_t FreeFor(const RankWish& wish, const WorkerSlots& worker);

// The ranks of one logical node.
struct RankBlock {
  std::string daemon;
  uint32_t first_rank = 0;
  uint32_t ranks = 0;
  uint32_t protocol = kProtocolVersion;  // protocol version, the same for the whole allocation
};

struct RankAllocation {
  enum class Outcome {
    kFits,           // `blocks` says where
    kWaitsForSlots,  // fits once running jobs have ended
    kWaitsForNodes,  // fits once lost nodes are back
    kNeverFits,      // not even on all known nodes
  };
  Outcome outcome = Outcome::kFits;
  std::vector<RankBlock> blocks;  // logical nodes in order, with contiguous global ranks
  std::string reason;             // set unless it fits
  bool lacks_gpus = false;        // `reason` is a lack of GPUs
};

// Assigns the wish's ranks to `workers` in order: all free slots of each in turn, or with
// `ranks_per_node` > 0 exactly that many per node that has them free (the last node gets the rest).
// With `of_nodes`, the largest nodes get the workers with the most free slots. A worker gets at
// most one logical node of a job. All workers speak one protocol version, the newest with enough
// free slots. If all workers together would have room, the result is never kNeverFits: in the
// middle of an upgrade more workers of one version will come. REQUIRES: ranks >= 1; the sum of
// `of_nodes`, if there are any.
RankAllocation AllocateRanks(const RankWish& wish, const std::vector<WorkerSlots>& workers);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_RANK_ALLOCATION_H_
