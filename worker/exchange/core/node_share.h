#ifndef STRATA_WORKER_EXCHANGE_CORE_NODE_SHARE_H_
#define STRATA_WORKER_EXCHANGE_CORE_NODE_SHARE_H_

#include <cstdint>

#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata::worker {

// A node's part of a job; `own` is 0 where the job's view has no such node.
struct NodeShare {
  uint64_t ranks = 0, own = 0;

  static NodeShare Of(const proto::JobRecord& record, NodeId node) {
    NodeShare share;
    for (const proto::LogicalNode& one : record.view().nodes()) {
      share.ranks += one.ranks();
      if (one.node() == node.value()) share.own = one.ranks();
    }
    return share;
  }

  double JobSamplesPerOwn() const { return own == 0 ? 0 : static_cast<double>(ranks) / own; }
  // Returns how many samples the whole job has taken when the node has taken so many and all nodes
  // are as fast. Where ranks have equal batches all nodes say the same.
  uint64_t JobSamples(uint64_t samples) const { return own == 0 ? 0 : samples * ranks / own; }
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_NODE_SHARE_H_
