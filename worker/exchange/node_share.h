#ifndef STRATA_WORKER_EXCHANGE_NODE_SHARE_H_
#define STRATA_WORKER_EXCHANGE_NODE_SHARE_H_

#include <cstdint>

#include "common/ids.h"
#include "proto/control.pb.h"

namespace strata::worker {

// How many samples of the whole job one of the node's stands for, all nodes being as fast; 0: the
// job's view has no such node.
inline double JobSamplesPerOwn(const proto::JobRecord& record, NodeId node) {
  uint32_t ranks = 0, own = 0;
  for (const proto::LogicalNode& one : record.view().nodes()) {
    ranks += one.ranks();
    if (one.node() == node.value()) own = one.ranks();
  }
  return own == 0 ? 0 : static_cast<double>(ranks) / own;
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_NODE_SHARE_H_
