#include "server/coordinator/placement/placement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/arena.h"
#include "common/os/limits.h"

namespace strata::server {
namespace {

std::string Endpoint(const std::string& address, uint32_t port) {
  const bool ipv6 = address.find(':') != std::string::npos && address.front() != '[';
  return absl::StrCat("tcp://", ipv6 ? absl::StrCat("[", address, "]") : address, ":", port);
}

// One per shard; any scale.
std::vector<double> ShardWeights(const std::vector<ServerShards>& servers) {
  const bool is_even = std::all_of(servers.begin(), servers.end(),
                                   [](const ServerShards& server) { return server.share == 0; });
  std::vector<double> weights;
  for (const ServerShards& server : servers) {
    const size_t shards = server.ports.size();
    weights.insert(weights.end(), shards, is_even ? 1 : server.share / shards);
  }
  return weights;
}

// Returns each shard's number of chunks: by largest remainder, ties to the first.
std::vector<uint64_t> ApportionChunks(const std::vector<double>& weights, uint64_t chunks) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> counts;
  std::vector<double> remainders;
  uint64_t left = chunks;
  for (const double weight : weights) {
    const double quota = weight / sum * chunks;
    counts.push_back(std::min<uint64_t>(left, std::floor(quota)));
    remainders.push_back(quota - counts.back());
    left -= counts.back();
  }
  std::vector<size_t> by_remainder(weights.size());
  std::iota(by_remainder.begin(), by_remainder.end(), 0);
  std::stable_sort(by_remainder.begin(), by_remainder.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (size_t i = 0; left > 0; i = (i + 1) % by_remainder.size()) {
    ++counts[by_remainder[i]];
    --left;
  }
  return counts;
}

// Chunk j of a shard's `count` chunks is placed at (j + 1/2) / count of the sequence; ties to the
// first shard.
std::vector<uint32_t> Interleaved(const std::vector<uint64_t>& counts) {
  struct ChunkPosition {
    double at;
    uint32_t shard;
  };
  std::vector<ChunkPosition> positions;
  for (uint32_t shard = 0; shard < counts.size(); ++shard) {
    for (uint64_t j = 0; j < counts[shard]; ++j) {
      positions.push_back({(j + 0.5) / counts[shard], shard});
    }
  }
  std::stable_sort(positions.begin(), positions.end(),
                   [](const ChunkPosition& a, const ChunkPosition& b) { return a.at < b.at; });
  std::vector<uint32_t> shards;
  for (const ChunkPosition& position : positions) shards.push_back(position.shard);
  return shards;
}

// Chunks on each thread of each server.
using Loads = std::vector<std::vector<uint64_t>>;

// Ties go to the next server: so equal servers back each other in a circle.
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

std::string ShardEndpoint(const ServerShards& server, size_t shard) {
  return Endpoint(server.address, server.ports[shard]);
}

absl::StatusOr<JobPlacement> PlaceChunks(uint64_t elements, uint32_t chunk_elements,
                                         const std::vector<ServerShards>& servers) {
  JobPlacement result;
  proto::Placement& placement = result.placement;
  placement.set_generation(1);
  for (const ServerShards& server : servers) {
    result.shards_of_server.emplace_back();
    for (uint32_t port : server.ports) {
      result.shards_of_server.back().push_back(placement.shard_endpoints_size());
      placement.add_shard_endpoints(Endpoint(server.address, port));
    }
  }
  const uint32_t shards = placement.shard_endpoints_size();
  placement.set_chunk_elements(chunk_elements != 0 ? chunk_elements
                                                   : DefaultChunkElements(elements, shards));
  const uint64_t chunks = (elements + placement.chunk_elements() - 1) / placement.chunk_elements();
  if (chunks > kChunksMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "chunk_elements: %d cuts %d elements into %d chunks; at most %d are possible",
        placement.chunk_elements(), elements, chunks, kChunksMax));
  }
  if (shards > kShardsPerJobMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the servers have %d shards; a job can use at most %d", shards, kShardsPerJobMax));
  }
  if (shards == 0) return result;
  for (const uint32_t shard : Interleaved(ApportionChunks(ShardWeights(servers), chunks))) {
    placement.add_shard_of_chunk(shard);
  }
  return result;
}

void PlaceBuckets(uint32_t wanted, const std::vector<ServerShards>& servers,
                  proto::Placement* placement) {
  constexpr uint32_t kBucketsOfShard = 8;
  const auto shards = static_cast<uint32_t>(placement->shard_endpoints_size());
  const uint32_t buckets =
      wanted != 0 ? wanted : std::min(std::bit_ceil(kBucketsOfShard * shards), kBucketsMax);
  for (const uint32_t shard : Interleaved(ApportionChunks(ShardWeights(servers), buckets))) {
    placement->add_shard_of_bucket(shard);
  }
}

uint32_t DeviceChunkElements(uint64_t elements, uint32_t shards) {
  constexpr uint64_t kAtLeast = (2 << 20) / sizeof(float);
  constexpr uint64_t kAlignment = 64 / sizeof(float);
  const uint64_t of_eight = elements / (uint64_t{8} * std::max(shards, 1u));
  const uint64_t wanted = std::min(kAtLeast, of_eight) / kAlignment * kAlignment;
  return std::max(DefaultChunkElements(elements, shards), static_cast<uint32_t>(wanted));
}

const std::string& HostOf(const ServerShards& server) {
  return server.host.empty() ? server.address : server.host;
}

absl::Status CheckTwoHosts(const std::vector<ServerShards>& servers) {
  const std::string& host = HostOf(servers.front());
  const bool is_one = std::all_of(servers.begin(), servers.end(), [&](const ServerShards& server) {
    return HostOf(server) == host;
  });
  if (!is_one) return absl::OkStatus();
  // Users do not know hosts by name.
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
  // Largest first: the others then even out the rest.
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
      // Shards of one job that go to one server in succession are spread over its threads.
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
