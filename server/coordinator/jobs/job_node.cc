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
    node.dropped = kept.dropped();
    node.takes_last = kept.takes_last();
  }
  node.finished = index < stored.node_finished_size() && stored.node_finished(index);
  node.absent = shown.absent();
  node.joins = shown.joins();
  if (shown.has_leaves_at()) node.leaves_at = shown.leaves_at();
  const auto& all = stored.status().replacements();
  node.replaced = node.takes_part() && std::any_of(all.begin(), all.end(), [&](const auto& one) {
                    return one.node() == node.node;
                  });
  if (node.absent) node.daemon.clear();
  if (node.joins) node.ready = false;
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

// Whether it makes the job's last step, for all that is known: it does not leave before, nor come
// after.
bool MakesTheLast(const JobNode& node) {
  if (!node.takes_part()) return false;
  if (!node.steps_made) return !node.leaves_at;
  return *node.steps_made > node.joined_at && (!node.leaves_at || node.steps_made < node.leaves_at);
}

}  // namespace

absl::Status CheckEqualSteps(const std::vector<JobNode>& nodes) {
  const auto done = std::find_if(nodes.begin(), nodes.end(), [](const JobNode& node) {
    return node.steps_made.has_value() && MakesTheLast(node);
  });
  if (done == nodes.end()) return absl::OkStatus();
  const uint64_t made = *done->steps_made;
  for (const JobNode& node : nodes) {
    if (!MakesTheLast(node) || node.joined_at >= made) continue;
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
