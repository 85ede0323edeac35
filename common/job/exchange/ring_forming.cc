#include "common/job/exchange/ring_forming.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace strata {

absl::StatusOr<proto::JobRecord> WithRing(const proto::JobRecord& record,
                                          const proto::FormRing& forming, NodeId node) {
  const proto::View& view = record.view();
  if (record.ring().endpoints_size() != view.nodes_size()) {
    return absl::InvalidArgumentError(absl::StrFormat("ring.endpoints has %d entries for %d nodes",
                                                      record.ring().endpoints_size(),
                                                      view.nodes_size()));
  }
  proto::JobRecord formed = record;
  formed.mutable_view()->clear_nodes();
  formed.mutable_ring()->clear_endpoints();
  formed.mutable_view()->set_number(forming.change().number());
  const auto& members = forming.nodes();
  for (int i = 0; i < view.nodes_size(); ++i) {
    if (std::find(members.begin(), members.end(), view.nodes(i).node()) == members.end()) continue;
    *formed.mutable_view()->add_nodes() = view.nodes(i);
    formed.mutable_ring()->add_endpoints(record.ring().endpoints(i));
  }
  if (formed.view().nodes_size() != members.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("ring %d is to have %d nodes, of which the job has %d",
                        forming.change().number(), members.size(), formed.view().nodes_size()));
  }
  if (std::find(members.begin(), members.end(), node.value()) == members.end()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("ring %d does not have node %d", forming.change().number(), node.value()));
  }
  return formed;
}

}  // namespace strata
