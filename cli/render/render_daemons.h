#ifndef STRATA_CLI_RENDER_RENDER_DAEMONS_H_
#define STRATA_CLI_RENDER_RENDER_DAEMONS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace strata::cli {

// A resource over all live daemons of a cluster and the coordinator: the sum, or the maximum if its
// name begins with "largest".
struct ResourceTotal {
  std::string name;
  uint64_t used = 0;
  uint64_t limit = 0;   // of those with a limit; 0: none has one
  std::string fullest;  // the daemon closest to its limit; empty: none has one
  uint64_t fullest_used = 0;
  uint64_t fullest_limit = 0;
};
// Lists them in the daemons' order.
std::vector<ResourceTotal> AddUpResources(const proto::ListNodesReply& nodes);

// A row per resource: sum, sum of the limits, and the daemon closest to its limit.
std::string ResourceTotals(const proto::ListNodesReply& nodes);
// A row per live daemon, "used of limit" per resource, and the sums. Empty if nothing was reported.
std::string ResourcesByDaemon(const proto::ListNodesReply& nodes);

// "12.0 MiB"; "-" for 0, which means unknown.
std::string MemoryText(uint64_t bytes);

struct MemorySum {
  uint64_t memory_bytes = 0;
  uint64_t memory_limit_bytes = 0;
};
// Adds up the parts of a JobNodeStatus or a JobShardStatus.
template <typename Parts>
MemorySum AddUp(const Parts& parts) {
  MemorySum sum;
  for (const auto& part : parts) {
    sum.memory_bytes += part.memory_bytes();
    sum.memory_limit_bytes += part.memory_limit_bytes();
  }
  return sum;
}

// Returns refusals of the coordinator and the daemons, a line each, the most frequent cause first:
// "  refused by s0: 12 malformed, 3 before HELLO". Refusals that follow from a planned action, such
// as a drain, have a line of their own. Empty if there are none.
std::string RefusalsText(const proto::ListNodesReply& nodes);
// Returns the same lines, only for the daemons of a job.
std::string RefusalsText(const proto::ListNodesReply& nodes, const proto::JobStatus& job);

// A line for every shard to which a worker could not connect; empty: all are reached.
std::string UnreachedText(const proto::ListNodesReply& nodes);
// The shards that a worker has tried: [{"address": ..., "name": ..., "error": ...}].
nlohmann::ordered_json PeersJson(const proto::DaemonStatus& worker);

// Returns how many shards of a server, or nodes of a worker, are left there.
uint32_t DrainLeft(const proto::DrainReply& told);
// Returns a line with the result, and one for each job that cannot leave now.
std::string DrainText(const std::string& daemon, const proto::DrainReply& told);
// "s1: 3 of 12 shards moved", and which job waits for what, without a line's end. `all`: the number
// at first.
std::string DrainProgress(const std::string& daemon, uint32_t all, const proto::DrainReply& told);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_DAEMONS_H_
