#include "server/coordinator/jobs/job_activity.h"

#include <utility>

#include "server/coordinator/jobs/wait_diagnosis.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {
namespace {

bool SameRequests(const proto::ShardActivity& a, const proto::ShardActivity& b) {
  return a.connected() == b.connected() && a.unanswered() == b.unanswered() &&
         a.oldest_clock() == b.oldest_clock() && a.oldest_chunk() == b.oldest_chunk();
}

bool SameClock(const proto::NodeClock& a, const proto::NodeClock& b) {
  return a.node() == b.node() && a.clock() == b.clock() && a.chunk() == b.chunk() &&
         a.unanswered() == b.unanswered();
}

}  // namespace

void JobActivity::OnNode(uint32_t node, proto::NodeActivity activity, uint64_t steps_per_clock,
                         absl::Time now) {
  for (proto::ShardActivity& line : *activity.mutable_shards()) {
    line.set_oldest_clock((line.oldest_clock() + 1) * steps_per_clock - 1);
  }
  NodeReport& of = nodes_[node];
  const proto::NodeActivity before = std::exchange(of.activity, activity);
  of.at = now;
  of.lines_since.resize(activity.shards_size(), now);
  for (int s = 0; s < activity.shards_size(); ++s) {
    if (s >= before.shards_size() || !SameRequests(before.shards(s), activity.shards(s))) {
      of.lines_since[s] = now;
    }
  }
}

void JobActivity::OnShard(const std::string& daemon, uint32_t shard, proto::JobCounters counters,
                          uint64_t steps_per_clock, absl::Time now) {
  for (proto::NodeClock& node : *counters.mutable_nodes()) {
    node.set_clock(node.clock() * steps_per_clock);
  }
  if (counters.nodes().empty()) return;  // it holds no chunk of the job
  ShardReport& of = shards_[{daemon, shard}];
  const bool is_first = of.nodes.empty();
  const uint64_t before = LeastClock(of.nodes);
  of.nodes_since.resize(counters.nodes_size(), now);
  for (int n = 0; n < counters.nodes_size(); ++n) {
    const size_t i = n;
    if (i >= of.nodes.size() || !SameClock(of.nodes[i], counters.nodes(n))) of.nodes_since[i] = now;
  }
  of.nodes.assign(counters.nodes().begin(), counters.nodes().end());
  of.at = now;
  if (is_first || LeastClock(of.nodes) != before) of.least_since = now;
}

void JobActivity::Excuse(absl::Duration gap, absl::Time now) {
  for (auto& [node, of] : nodes_) {
    of.at = Excused(of.at, gap, now);
    for (absl::Time& since : of.lines_since) since = Excused(since, gap, now);
  }
  for (auto& [key, of] : shards_) {
    of.at = Excused(of.at, gap, now);
    of.least_since = Excused(of.least_since, gap, now);
    for (absl::Time& since : of.nodes_since) since = Excused(since, gap, now);
  }
}

const JobActivity::NodeReport* JobActivity::Node(uint32_t node) const {
  const auto it = nodes_.find(node);
  return it == nodes_.end() ? nullptr : &it->second;
}

const JobActivity::ShardReport* JobActivity::Shard(const std::string& daemon,
                                                   uint32_t shard) const {
  const auto it = shards_.find({daemon, shard});
  return it == shards_.end() ? nullptr : &it->second;
}

}  // namespace strata::server
