#ifndef STRATA_CLI_RENDER_RENDER_RESOURCES_H_
#define STRATA_CLI_RENDER_RENDER_RESOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace strata::cli {

// A resource over all live daemons of a cluster and the coordinator: the sum, or the largest where
// its name says "largest".
struct ResourceTotal {
  std::string name;
  uint64_t used = 0;
  uint64_t limit = 0;   // of those that have one; 0: none has
  std::string fullest;  // the daemon that is nearest to its limit; empty: none has one
  uint64_t fullest_used = 0;
  uint64_t fullest_limit = 0;
};
// Lists them in the order in which the daemons name them.
std::vector<ResourceTotal> AddUpResources(const proto::ListNodesReply& nodes);

// A row per resource: sum, sum of the limits, and who is nearest to its limit.
std::string ResourceTotals(const proto::ListNodesReply& nodes);
// A row per live daemon, "used of limit" per resource, and the sums. Empty where nobody has said
// anything.
std::string ResourcesByDaemon(const proto::ListNodesReply& nodes);

// "12.0 MiB"; "-" for 0, which means not known.
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

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_RESOURCES_H_
