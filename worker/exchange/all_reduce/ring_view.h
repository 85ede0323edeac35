#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_RING_VIEW_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_RING_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata::worker {

// A node of an all-reduce; its position is its index, in order of the first ranks.
struct RingNode {
  NodeId node;
  std::string endpoint;
};

std::vector<RingNode> RingNodes(const proto::JobRecord& record);
// Returns the position of `node`, or nodes.size() if it is none of them.
uint32_t RingPosition(const std::vector<RingNode>& nodes, NodeId node);

// Whether `node` has a place in the record's view, with addresses for all; and whether it can
// all-reduce by this record. Errors: InvalidArgument naming the field.
absl::Status CheckRingView(const proto::JobRecord& record, NodeId node);
absl::Status CheckRing(const proto::JobRecord& record, NodeId node);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_RING_VIEW_H_
