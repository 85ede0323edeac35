#ifndef STRATA_COMMON_OS_DESCRIPTORS_H_
#define STRATA_COMMON_OS_DESCRIPTORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/os/limits.h"

namespace strata {

// The maximum number of file descriptors of a process, and their purposes.
struct DescriptorNeed {
  std::string formula;  // "64 + 1 shard x (16 + 1088 connections)"
  uint64_t total = 0;
};

// Connections beyond a listener's limit that may be open briefly, until they are closed.
inline constexpr uint32_t kConnectionSlack = 64;

// Peers on its host with which a listener shares memory: a line each. Further peers use TCP.
inline constexpr uint32_t kRegionPeersMax = 64;

// Peers of one node of an all-reduce: two in a ring, one more for each doubling.
inline constexpr uint32_t kRingPeersMax = 16;

// `sessions` and other calls take a connection each.
DescriptorNeed CoordinatorDescriptors(const CoordinatorLimits& limits);
DescriptorNeed ServerDescriptors(uint32_t shards, const ServerLimits& limits);
// Logs that a worker has open for readers by default.
inline constexpr uint32_t kOpenLogsMax = 256;

// A slot is a rank, and in the worst case an aggregator of its own. `shards_max`: connections of a
// job's node to shards.
DescriptorNeed WorkerDescriptors(uint32_t slots, uint32_t shards_max = kConnectionsPerNodeMax,
                                 uint32_t open_logs_max = kOpenLogsMax);
// Descriptors of an aggregator with `connections` connections to each shard; it inherits its
// worker's limit, so WorkerDescriptors is at least this for a job of `shards_max` in total, with
// all slots.
DescriptorNeed AggregatorDescriptors(uint32_t local_ranks, uint32_t shards, uint32_t connections);

// Descriptors of an aggregator with its own port, for an all-reduce with `connections` connections
// to each peer; with one, at most as many as for kShardsPerJobMax shards.
DescriptorNeed RingDescriptors(uint32_t local_ranks, uint32_t connections);

// Checks whether `allowed` covers the need of `process` ("strata server"). Errors:
// ResourceExhausted, with both figures, the formula and the command that helps.
absl::Status CheckDescriptors(const std::string& process, const DescriptorNeed& need,
                              uint64_t allowed);

// CheckDescriptors against this process's `ulimit -n`, whose soft limit is raised to the hard one
// first: programs that cannot use descriptors above 1023 are not started by us with more than they
// open.
absl::Status EnsureDescriptors(const std::string& process, const DescriptorNeed& need);

}  // namespace strata

#endif  // STRATA_COMMON_OS_DESCRIPTORS_H_
