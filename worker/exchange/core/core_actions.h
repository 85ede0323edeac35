#ifndef STRATA_WORKER_EXCHANGE_CORE_CORE_ACTIONS_H_
#define STRATA_WORKER_EXCHANGE_CORE_CORE_ACTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "common/link/link.h"
#include "compression/checked_payload.h"

namespace strata::worker {

// One thing that a core wants of the node, besides WireActions.
struct NodeAction {
  enum class Kind {
    kFirstWeights,  // answer with OnPayload
    kDeliverFirst,  // `weights` are the chunk's first ones, in place of the node's own
    kSum,           // the chunk's sum of `clock`: answer with OnPayload
    kDeliver,       // `weights` are part of the chunk's weights after `clock`, or make them of
                    // those before
    kDeliverFinal,  // `weights` are the job's final ones
  };
  Kind kind = Kind::kSum;
  ChunkId chunk;
  uint64_t clock = 0;
  uint32_t first_element = 0;  // kDeliver: of the chunk
  bool lands = false;          // kDeliver: the rest of the chunk has been delivered
  uint32_t ranks = 0;          // kDeliver: whose sums are in it; 0: those of all of the job's nodes
  Bytes weights;
  // kDeliver: `weights` are this payload, to be added; none: they are fp32, and replace.
  std::optional<kernels::CheckedPayload> delta;
};

struct CoreActions {
  WireActions wire;
  std::vector<NodeAction> node;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_CORE_ACTIONS_H_
