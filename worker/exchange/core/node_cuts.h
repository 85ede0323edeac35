#ifndef STRATA_WORKER_EXCHANGE_CORE_NODE_CUTS_H_
#define STRATA_WORKER_EXCHANGE_CORE_NODE_CUTS_H_

#include <vector>

#include "common/image/chunk_image.h"
#include "common/image/cut_collector.h"
#include "common/image/node_image.h"

namespace strata::worker {

// One node's parts of checkpoints.
struct NodeCuts {
  enum class Kind {
    kOwn,     // what the node alone knows: NodesKeepState
    kSlices,  // exchange: RING: weights and optimizer state of what it updates
  };
  std::vector<Cut<NodeChunkImage>> own;
  std::vector<Cut<ChunkImage>> slices;
};

// What a node goes on from.
struct NodeResume {
  std::vector<NodeChunkImage> own;  // of this node, by range: NodesKeepState
  std::vector<ChunkImage> slices;   // exchange: RING: of all nodes, by range
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_NODE_CUTS_H_
