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

// The latest activity reports of a running job's nodes and shards, with their times. Clocks of the
// exchange are stored as steps of the nodes: if nodes make several local steps per clock, as the
// step in which a request was made, and as the number of steps that have been pushed.
class JobActivity {
 public:
  struct NodeReport {
    proto::NodeActivity activity;
    absl::Time at;
    std::vector<absl::Time> lines_since;  // activity.shards(i) has been the same since then, apart
                                          // from its age
  };
  struct ShardReport {
    std::vector<proto::NodeClock> nodes;
    std::vector<absl::Time> nodes_since;  // nodes[i] has been the same since then
    absl::Time at;
    // Time since which LeastClock(nodes) has its value.
    absl::Time least_since;
  };

  void OnNode(uint32_t node, proto::NodeActivity activity, uint64_t steps_per_clock,
              absl::Time now);
  // `shard`: its index within the daemon.
  void OnShard(const std::string& daemon, uint32_t shard, proto::JobCounters counters,
               uint64_t steps_per_clock, absl::Time now);
  // The node's processes are gone: forgets their reports.
  void ForgetNode(uint32_t node) { nodes_.erase(node); }
  // See Membership::Excuse; applies to the times of reports.
  void Excuse(absl::Duration gap, absl::Time now);

  // Both return null without a report.
  const NodeReport* Node(uint32_t node) const;
  const ShardReport* Shard(const std::string& daemon, uint32_t shard) const;

 private:
  std::map<uint32_t, NodeReport> nodes_;
  std::map<std::pair<std::string, uint32_t>, ShardReport> shards_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ACTIVITY_H_
