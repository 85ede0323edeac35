#ifndef STRATA_COMMON_OS_DESCRIPTORS_H_
#define STRATA_COMMON_OS_DESCRIPTORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/os/limits.h"

namespace strata {

// How many file descriptors a process needs at most, and for what.
struct DescriptorNeed {
  std::string formula;  // "64 + 1 shard x (16 + 1088 connections)"
  uint64_t total = 0;
};

// Connections beyond a listener's limit that may be open for a moment, until they are ended.
inline constexpr uint32_t kConnectionSlack = 64;

// Peers of its host with which a listener shares memory: a line each. Further peers use TCP.
inline constexpr uint32_t kRegionPeersMax = 64;

// Nodes that one node of an all-reduce speaks with: two in a ring, one more for each doubling.
inline constexpr uint32_t kRingPeersMax = 16;

// `sessions` and other calls are a connection each.
DescriptorNeed CoordinatorDescriptors(const CoordinatorLimits& limits);
DescriptorNeed ServerDescriptors(uint32_t shards, const ServerLimits& limits);
// Logs that a worker has open for those who look at them, unless it is told otherwise.
inline constexpr uint32_t kOpenLogsMax = 256;

// A slot is a rank, and in the worst case an aggregator of its own. `shards_max`: connections that
// a job's node may have to shards.
DescriptorNeed WorkerDescriptors(uint32_t slots, uint32_t shards_max = kConnectionsPerNodeMax,
                                 uint32_t open_logs_max = kOpenLogsMax);
// Descriptors of an aggregator, with so many connections to each shard; it inherits its worker's
// limit, so WorkerDescriptors is no less than this for a job of `shards_max` in all, with all
// slots.
DescriptorNeed AggregatorDescriptors(uint32_t local_ranks, uint32_t shards, uint32_t connections);

// Descriptors of one with its own port, for an all-reduce with so many connections to each peer;
// for one of them no more than for kShardsPerJobMax shards.
DescriptorNeed RingDescriptors(uint32_t local_ranks, uint32_t connections);

// Checks whether `allowed` covers the need of `process` ("strata server"). Errors:
// ResourceExhausted, with both figures, the formula and the command that helps.
absl::Status CheckDescriptors(const std::string& process, const DescriptorNeed& need,
                              uint64_t allowed);

// CheckDescriptors against `ulimit -n` of this process, whose soft limit is raised to the hard one
// first: programs that cannot use descriptors over 1023 are not started by us with more than they
// open.
absl::Status EnsureDescriptors(const std::string& process, const DescriptorNeed& need);

}  // namespace strata

#endif  // STRATA_COMMON_OS_DESCRIPTORS_H_
