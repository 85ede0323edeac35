#include "server/coordinator/jobs/job_node.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::server {

std::string JobNode::Describe() const {
  return ranks == 1 ? absl::StrFormat("worker %s (node %d, rank %d)", daemon, node, first_rank)
                    : absl::StrFormat("worker %s (node %d, ranks %d to %d)", daemon, node,
                                      first_rank, first_rank + ranks - 1);
}

namespace {

std::string NameFirstRank(const JobNode& node) {
  return absl::StrFormat("rank %d (node %d, %s)", node.first_rank, node.node, node.daemon);
}

}  // namespace

absl::Status CheckEqualSteps(const std::vector<JobNode>& nodes) {
  const auto done = std::find_if(nodes.begin(), nodes.end(),
                                 [](const JobNode& node) { return node.steps_made.has_value(); });
  if (done == nodes.end()) return absl::OkStatus();
  const uint64_t made = *done->steps_made;
  for (const JobNode& node : nodes) {
    if (node.steps_made.value_or(made) != made) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s has finished after %d steps, %s after %d", NameFirstRank(*done), made,
                          NameFirstRank(node), *node.steps_made));
    }
    if (node.steps > made) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s has finished after %d steps, but %s goes on", NameFirstRank(*done),
                          made, NameFirstRank(node)));
    }
  }
  return absl::OkStatus();
}

}  // namespace strata::server
