#include "worker/exchange/all_reduce/ring_view.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"

namespace strata::worker {

std::vector<RingNode> RingNodes(const proto::JobRecord& record) {
  const auto& nodes = record.view().nodes();
  std::vector<int> order(nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return nodes[a].first_rank() < nodes[b].first_rank(); });
  std::vector<RingNode> ring;
  for (const int i : order) ring.push_back({NodeId(nodes[i].node()), record.ring().endpoints(i)});
  return ring;
}

uint32_t RingPosition(const std::vector<RingNode>& nodes, NodeId node) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const RingNode& other) { return other.node == node; });
  return static_cast<uint32_t>(found - nodes.begin());
}

absl::Status CheckRingView(const proto::JobRecord& record, NodeId node) {
  const int nodes = record.view().nodes_size();
  if (nodes < 1) return absl::InvalidArgumentError("view.nodes has no nodes");
  if (record.ring().endpoints_size() != nodes) {
    return absl::InvalidArgumentError(absl::StrFormat("ring.endpoints has %d entries for %d nodes",
                                                      record.ring().endpoints_size(), nodes));
  }
  if (RingPosition(RingNodes(record), node) == static_cast<uint32_t>(nodes)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("view.nodes does not name node %d", node.value()));
  }
  return absl::OkStatus();
}

absl::Status CheckRing(const proto::JobRecord& record, NodeId node) {
  if (absl::Status status = CheckRingView(record, node); !status.ok()) return status;
  if (record.ring().algorithm() != proto::AllReduce::RING &&
      record.ring().algorithm() != proto::AllReduce::HALVING_DOUBLING) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "ring.algorithm is %d, not RING or HALVING_DOUBLING", record.ring().algorithm()));
  }
  if (record.layout().elements() == 0) return absl::InvalidArgumentError("layout is empty");
  if (record.placement().chunk_elements() == 0) {
    return absl::InvalidArgumentError("placement.chunk_elements is 0");
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
