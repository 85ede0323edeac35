#include "server/coordinator/jobs/job_node.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::server {

JobNode JobNode::Restored(const proto::StoredJob& stored, int index) {
  const proto::JobNodeStatus& shown = stored.status().nodes(index);
  JobNode node;
  node.daemon = shown.daemon();
  node.node = shown.node();
  node.first_rank = shown.first_rank();
  node.ranks = shown.ranks();
  node.incarnation = std::max(1u, shown.incarnation());
  node.ready = stored.training();
  if (index < stored.nodes_size()) {
    const proto::StoredNode& kept = stored.nodes(index);
    node.ready = kept.is_told_to_run();
    if (kept.has_died_at_step()) node.died_at_step = kept.died_at_step();
  }
  node.finished = index < stored.node_finished_size() && stored.node_finished(index);
  node.present = node.finished || node.waits_for_worker();
  if (!node.waits_for_worker()) return node;
  for (const proto::ReplacementStatus& one : stored.status().replacements()) {
    if (one.node() == node.node) node.waits_since = absl::FromUnixMillis(one.lost_ms());
  }
  return node;
}

std::string JobNode::Describe() const {
  return ranks == 1 ? absl::StrFormat("worker %s (node %d, rank %d)", daemon, node, first_rank)
                    : absl::StrFormat("worker %s (node %d, ranks %d to %d)", daemon, node,
                                      first_rank, first_rank + ranks - 1);
}

std::string JobNode::DescribeAlone() const {
  return ranks == 1 ? absl::StrFormat("node %d (rank %d)", node, first_rank)
                    : absl::StrFormat("node %d (ranks %d to %d)", node, first_rank,
                                      first_rank + ranks - 1);
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
