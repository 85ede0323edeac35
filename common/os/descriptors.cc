#include "common/os/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"

namespace strata {
namespace {

// Standard streams, log, state files, libraries, and the control connection with gRPC's own.
constexpr uint64_t kBase = 64;
// A ZeroMQ context: two threads with two descriptors each.
constexpr uint64_t kContext = 4;
// A listening socket: mailbox, port, both ends of its monitor, its endpoint's wake-up, connections
// accepted before the limit takes effect; for shared memory the memory, the door, its watch, and a
// line to each peer.
constexpr uint64_t kPerShard = 5 + 3 + kRegionPeersMax;
// An outgoing connection: mailbox, TCP, both ends of its monitor, a line for shared memory.
constexpr uint64_t kPerConnectionOut = 5;
// A worker has three for each child process: its channel, its keeper's pid_fd and socket.
constexpr uint64_t kPerChild = 3;
// While a child starts: its end of the channel, launch file, log, pipe for the error.
constexpr uint64_t kWhileStarting = 8;

}  // namespace

DescriptorNeed CoordinatorDescriptors(const CoordinatorLimits& limits) {
  return {
      absl::StrFormat("%d + %d sessions + %d calls", kBase, limits.sessions_max, limits.calls_max),
      kBase + uint64_t{limits.sessions_max} + limits.calls_max};
}

DescriptorNeed ServerDescriptors(uint32_t shards, const ServerLimits& limits) {
  const uint64_t base = kBase + kContext;
  const uint64_t each = kPerShard + limits.connections_max + kConnectionSlack;
  return {absl::StrFormat("%d + %s x (%d + %d connections)", base, Counted(shards, "shard"),
                          kPerShard + kConnectionSlack, limits.connections_max),
          base + shards * each};
}

DescriptorNeed AggregatorDescriptors(uint32_t local_ranks, uint32_t shards, uint32_t connections) {
  const uint64_t base = kBase + kContext;
  const std::string each =
      connections == 1 ? "" : absl::StrFormat(" x %d connections", connections);
  return {absl::StrFormat("%d + %s + %s%s x %d", base, Counted(local_ranks, "rank"),
                          Counted(shards, "shard"), each, kPerConnectionOut),
          base + local_ranks + uint64_t{shards} * connections * kPerConnectionOut};
}

DescriptorNeed RingDescriptors(uint32_t local_ranks, uint32_t connections) {
  const uint64_t base = kBase + kContext;
  const uint64_t peers = uint64_t{kRingPeersMax} * connections;
  const uint64_t port = kPerShard + peers + kConnectionSlack;
  return {absl::StrFormat("%d + %s + %d for its port + %d connections out x %d", base,
                          Counted(local_ranks, "rank"), port, peers, kPerConnectionOut),
          base + local_ranks + port + peers * kPerConnectionOut};
}

DescriptorNeed WorkerDescriptors(uint32_t slots, uint32_t shards_max, uint32_t open_logs_max) {
  const uint64_t base = kBase + kWhileStarting + kProbesMax + open_logs_max;
  // Rank, aggregator, and the claim of the run directory.
  const uint64_t per_slot = 2 * kPerChild + 1;
  const DescriptorNeed own = {
      absl::StrFormat("%d + %s x %d", base, Counted(slots, "slot"), per_slot),
      base + slots * per_slot};
  DescriptorNeed child = AggregatorDescriptors(slots, shards_max, 1);
  if (child.total <= own.total) return own;
  child.formula = absl::StrCat("an aggregator's ", child.formula);
  return child;
}

absl::Status CheckDescriptors(const std::string& process, const DescriptorNeed& need,
                              uint64_t allowed) {
  if (allowed >= need.total) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s needs up to %d file descriptors (%s), and may open %d: raise the limit with `ulimit -n "
      "%d`, or lower what it has to serve",
      process, need.total, need.formula, allowed, need.total));
}

absl::Status EnsureDescriptors(const std::string& process, const DescriptorNeed& need) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot read the limit of file descriptors: ", std::strerror(errno)));
  }
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  // Not allowed everywhere; then the soft limit counts.
  if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return CheckDescriptors(process, need, limit.rlim_cur);
}

}  // namespace strata
