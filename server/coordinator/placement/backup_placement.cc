#include "server/coordinator/placement/backup_placement.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace strata::server {
namespace {

// Chunks on each thread of each server.
using Loads = std::vector<std::vector<uint64_t>>;

// Of equals the one that comes next: so servers that are alike back each other in a circle.
std::optional<BackupPlace> LeastLoaded(const std::vector<ServerShards>& servers,
                                       const BackupPlace& first, const Loads& loads) {
  std::optional<BackupPlace> best;
  for (size_t i = 1; i < servers.size(); ++i) {
    const size_t server = (first.server + i) % servers.size();
    if (HostOf(servers[server]) == HostOf(servers[first.server])) continue;
    for (size_t k = 0; k < loads[server].size(); ++k) {
      const size_t thread = (first.thread + k) % loads[server].size();
      if (best && loads[server][thread] >= loads[best->server][best->thread]) continue;
      best = BackupPlace{server, thread};
    }
  }
  return best;
}

// "s1, s2"
std::string NameServers(const std::vector<ServerShards>& servers) {
  constexpr size_t kNamesMax = 6;
  std::vector<std::string> names;
  for (const ServerShards& server : servers) names.push_back(server.daemon);
  std::sort(names.begin(), names.end());
  const bool are_many = names.size() > kNamesMax;
  if (are_many) names.resize(kNamesMax);
  return absl::StrCat(absl::StrJoin(names, ", "), are_many ? ", ..." : "");
}

}  // namespace

const std::string& HostOf(const ServerShards& server) {
  return server.host.empty() ? server.address : server.host;
}

absl::Status CheckTwoHosts(const std::vector<ServerShards>& servers) {
  const std::string& host = HostOf(servers.front());
  const bool is_one = std::all_of(servers.begin(), servers.end(), [&](const ServerShards& server) {
    return HostOf(server) == host;
  });
  if (!is_one) return absl::OkStatus();
  // A host has no name that its user knows.
  return absl::FailedPreconditionError(
      absl::StrCat("replicas: a second copy lies on another host, but all servers are on one: ",
                   NameServers(servers)));
}

absl::StatusOr<std::vector<std::optional<BackupPlace>>> PlaceBackups(
    const JobPlacement& placement, const std::vector<ServerShards>& servers) {
  std::vector<uint64_t> chunks(placement.placement.shard_endpoints_size(), 0);
  for (const uint32_t shard : placement.placement.shard_of_chunk()) ++chunks[shard];
  std::vector<BackupPlace> first(chunks.size());
  Loads loads;
  for (const ServerShards& server : servers) loads.emplace_back(server.ports.size(), 0);
  for (size_t server = 0; server < placement.shards_of_server.size(); ++server) {
    const std::vector<uint32_t>& shards = placement.shards_of_server[server];
    for (size_t thread = 0; thread < shards.size(); ++thread) {
      first[shards[thread]] = {server, thread};
      loads[server][thread] += chunks[shards[thread]];
    }
  }
  // The largest first: the rest then fills what they leave uneven.
  std::vector<size_t> order(chunks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return chunks[a] > chunks[b]; });
  std::vector<std::optional<BackupPlace>> places(chunks.size());
  for (const size_t shard : order) {
    if (chunks[shard] == 0) continue;
    places[shard] = LeastLoaded(servers, first[shard], loads);
    if (!places[shard]) return CheckTwoHosts(servers);
    loads[places[shard]->server][places[shard]->thread] += chunks[shard];
  }
  return places;
}

std::optional<BackupPlace> PlaceOneBackup(const proto::JobStatus& status, ShardId shard,
                                          const std::string& host,
                                          const std::vector<ServerShards>& servers) {
  std::map<std::pair<std::string, uint32_t>, uint64_t> chunks_on;
  for (const proto::JobShardStatus& one : status.shards()) {
    chunks_on[{one.daemon(), one.shard()}] += one.chunks();
    if (!one.backup().empty()) chunks_on[{one.backup(), one.backup_shard()}] += one.chunks();
    if (one.next_backup().empty()) continue;
    chunks_on[{one.next_backup(), one.next_backup_shard()}] += one.chunks();
  }
  std::optional<BackupPlace> best;
  uint64_t least = 0;
  for (size_t server = 0; server < servers.size(); ++server) {
    if (HostOf(servers[server]) == host) continue;
    for (size_t i = 0; i < servers[server].ports.size(); ++i) {
      // Shards of one job that come to one server one after the other spread over its threads.
      const size_t thread = (shard.value() + i) % servers[server].ports.size();
      const uint64_t chunks = chunks_on[{servers[server].daemon, static_cast<uint32_t>(thread)}];
      if (best && chunks >= least) continue;
      best = BackupPlace{server, thread};
      least = chunks;
    }
  }
  return best;
}

}  // namespace strata::server
