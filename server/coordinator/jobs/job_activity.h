#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_ACTIVITY_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_ACTIVITY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::server {

// The newest that nodes and shards of a running job have said of what they do, and when. Clocks of
// the exchange are kept as steps of the nodes: where these make several by themselves, that in
// which a request was made; and as many as have been pushed.
class JobActivity {
 public:
  struct NodeReport {
    proto::NodeActivity activity;
    absl::Time at;
    std::vector<absl::Time> lines_since;  // activity.shards(i) is the same, but for its age
  };
  struct ShardReport {
    std::vector<proto::NodeClock> nodes;
    std::vector<absl::Time> nodes_since;  // nodes[i] is the same
    absl::Time at;
    // Since when LeastClock(nodes) is what it is.
    absl::Time least_since;
  };

  void OnNode(uint32_t node, proto::NodeActivity activity, uint64_t steps_per_clock,
              absl::Time now);
  // `shard`: within the daemon.
  void OnShard(const std::string& daemon, uint32_t shard, proto::JobCounters counters,
               uint64_t steps_per_clock, absl::Time now);
  // The node's processes are gone: forgets what they said.
  void ForgetNode(uint32_t node) { nodes_.erase(node); }
  // Does what Membership::Excuse does, for what was said.
  void Excuse(absl::Duration gap, absl::Time now);

  // Both return null when nothing was said.
  const NodeReport* Node(uint32_t node) const;
  const ShardReport* Shard(const std::string& daemon, uint32_t shard) const;

 private:
  std::map<uint32_t, NodeReport> nodes_;
  std::map<std::pair<std::string, uint32_t>, ShardReport> shards_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ACTIVITY_H_
