#include "server/coordinator/job_activity.h"

#include "server/coordinator/membership.h"
#include "server/coordinator/wait_diagnosis.h"

namespace strata::server {

void JobActivity::OnNode(uint32_t node, const proto::NodeActivity& activity, absl::Time now) {
  nodes_[node] = {.activity = activity, .at = now};
}

void JobActivity::OnShard(const std::string& daemon, uint32_t shard,
                          const proto::JobCounters& counters, absl::Time now) {
  if (counters.nodes().empty()) return;  // it holds no chunk of the job
  OfShard& of = shards_[{daemon, shard}];
  const bool is_first = of.nodes.empty();
  const uint64_t before = LeastClock(of.nodes);
  of.nodes.assign(counters.nodes().begin(), counters.nodes().end());
  of.at = now;
  if (is_first || LeastClock(of.nodes) != before) of.least_since = now;
}

void JobActivity::Excuse(absl::Duration gap, absl::Time now) {
  for (auto& [node, of] : nodes_) of.at = Excused(of.at, gap, now);
  for (auto& [key, of] : shards_) {
    of.at = Excused(of.at, gap, now);
    of.least_since = Excused(of.least_since, gap, now);
  }
}

const JobActivity::OfNode* JobActivity::Node(uint32_t node) const {
  const auto it = nodes_.find(node);
  return it == nodes_.end() ? nullptr : &it->second;
}

const JobActivity::OfShard* JobActivity::Shard(const std::string& daemon, uint32_t shard) const {
  const auto it = shards_.find({daemon, shard});
  return it == shards_.end() ? nullptr : &it->second;
}

}  // namespace strata::server
