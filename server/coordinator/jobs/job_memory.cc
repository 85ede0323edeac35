// The part of JobTable that knows what jobs take of the daemons' memory.

#include "server/coordinator/jobs/job_table.h"

namespace strata::server {

void JobTable::TakeMemory(const std::string& daemon, const proto::Heartbeat& heartbeat) {
  for (const proto::JobCounters& counters : heartbeat.jobs()) {
    JobEntry* entry = Running(counters.job_id());
    if (entry == nullptr) continue;
    for (proto::JobShardStatus& shard : *entry->status().mutable_shards()) {
      if (shard.daemon() != daemon || shard.shard() != counters.shard()) continue;
      shard.set_memory_bytes(counters.memory_bytes());
      shard.set_memory_limit_bytes(counters.memory_limit_bytes());
    }
  }
  for (const proto::NodeActivity& activity : heartbeat.nodes()) {
    JobEntry* entry = Running(activity.job_id());
    if (entry == nullptr) continue;
    for (proto::JobNodeStatus& node : *entry->status().mutable_nodes()) {
      if (node.daemon() != daemon || node.node() != activity.node()) continue;
      // An aggregator that has not spoken yet says nothing of its memory.
      if (activity.memory_bytes() > 0) node.set_memory_bytes(activity.memory_bytes());
      node.set_memory_limit_bytes(activity.memory_limit_bytes());
      if (activity.gpu_memory_bytes() > 0) node.set_gpu_memory_bytes(activity.gpu_memory_bytes());
      node.set_gpu_memory_limit_bytes(activity.gpu_memory_limit_bytes());
    }
  }
}

}  // namespace strata::server
