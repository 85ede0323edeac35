#include "compare/virtual_time/job_hosts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/all_reduce.h"
#include "common/job/arena.h"
#include "server/coordinator/placement/placement.h"
#include "server/coordinator/placement/placement_choice.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::compare {
namespace {

using server::NodeHost;
using server::ServerShards;

double BytesPerSecond(double gbit_per_s) { return gbit_per_s * 1e9 / 8; }

// Only of those on hosts of the job's own kind is the address a name.
std::vector<ServerShards> ServersOf(const proto::Cluster& cluster,
                                    const std::vector<ClusterHost>& hosts) {
  std::vector<ServerShards> servers;
  if (!cluster.has_servers()) return servers;
  const uint32_t nodes = std::count_if(hosts.begin(), hosts.end(),
                                       [](const ClusterHost& host) { return host.group >= 0; });
  for (uint32_t i = 0; i < cluster.servers().count(); ++i) {
    const ClusterHost& host = hosts[cluster.servers().on_nodes() ? i : nodes + i];
    ServerShards& server = servers.emplace_back();
    server.daemon = server.address = absl::StrCat("server-", i);
    for (uint32_t s = 0; s < cluster.servers().shards(); ++s) server.ports.push_back(s + 1);
    server.host = host.name;
    server.link_bytes_per_s = BytesPerSecond(host.link.gbit_per_s());
  }
  return servers;
}

absl::Status AllocateTo(const proto::Job& job, const std::vector<ClusterHost>& hosts,
                        const proto::Cluster& cluster, JobPlaces* places) {
  std::vector<server::WorkerSlots> workers;
  std::map<std::string, uint32_t> host_of;
  for (uint32_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].group < 0) continue;
    workers.push_back({.daemon = hosts[i].name, .slots = cluster.nodes(hosts[i].group).ranks()});
    host_of[hosts[i].name] = i;
  }
  const auto allocation = server::AllocateRanks({job.ranks(), job.ranks_per_node()}, workers);
  if (allocation.outcome != server::RankAllocation::Outcome::kFits) {
    return absl::InvalidArgumentError(absl::StrCat("ranks: ", allocation.reason));
  }
  proto::View* view = places->record.mutable_view();
  view->set_number(1);
  for (const server::RankBlock& block : allocation.blocks) {
    proto::LogicalNode* node = view->add_nodes();
    node->set_node(places->host_of_node.size());
    node->set_first_rank(block.first_rank);
    node->set_ranks(block.ranks);
    places->host_of_node.push_back(host_of.at(block.daemon));
  }
  return absl::OkStatus();
}

// The slowest of the links between the nodes and between their sites.
LinkCost SlowestLink(const proto::Cluster& cluster, const std::vector<ClusterHost>& hosts,
                     const JobPlaces& places) {
  LinkCost cost{.latency_s = 0, .bytes_per_s = 1e18};
  for (const uint32_t host : places.host_of_node) {
    const proto::Link& link = hosts[host].link;
    cost.latency_s = std::max(cost.latency_s, 2 * link.latency_us() / 1e6);
    cost.bytes_per_s = std::min(cost.bytes_per_s, BytesPerSecond(link.gbit_per_s()));
  }
  double between_s = 0;
  for (const proto::SiteLink& link : cluster.site_links()) {
    const auto has_node = [&](const std::string& site) {
      return std::any_of(places.host_of_node.begin(), places.host_of_node.end(),
                         [&](uint32_t host) { return hosts[host].site == site; });
    };
    if (!has_node(link.sites(0)) || !has_node(link.sites(1))) continue;
    between_s = std::max(between_s, link.latency_ms() / 1e3);
    cost.bytes_per_s = std::min(cost.bytes_per_s, BytesPerSecond(link.gbit_per_s()));
  }
  cost.latency_s += between_s;
  return cost;
}

absl::Status PlaceRing(const proto::Cluster& cluster, const std::vector<ClusterHost>& hosts,
                       JobPlaces* places) {
  const proto::Job& job = places->record.job();
  const auto nodes = static_cast<uint32_t>(places->host_of_node.size());
  const uint64_t elements = places->record.layout().elements();
  if (nodes < 2) {
    return absl::InvalidArgumentError("exchange: RING needs two nodes, but all ranks are on one");
  }
  if (elements < nodes || (job.chunk_elements() != 0 && job.chunk_elements() < nodes)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "exchange: RING cuts each chunk into %d slices, one per node, but %s has fewer elements",
        nodes, elements < nodes ? "the model" : "a chunk"));
  }
  const uint32_t chunk_elements = job.chunk_elements() != 0
                                      ? job.chunk_elements()
                                      : DefaultAllReduceChunkElements(elements, nodes);
  auto placement = server::PlaceChunks(elements, chunk_elements, {});
  if (!placement.ok()) return placement.status();
  *places->record.mutable_placement() = placement->placement;
  proto::Ring* ring = places->record.mutable_ring();
  for (const uint32_t host : places->host_of_node) ring->add_endpoints(RingAddress(hosts[host]));
  ring->set_algorithm(job.all_reduce().algorithm());
  if (ring->algorithm() != proto::AllReduce::AUTO) return absl::OkStatus();
  const LinkCost link = SlowestLink(cluster, hosts, *places);
  const ChunkMap map(elements, places->record.placement().chunk_elements());
  ring->set_algorithm(FasterAllReduce({.nodes = nodes,
                                       .bytes = elements * sizeof(float),
                                       .chunks = map.chunks(),
                                       .window = job.window()},
                                      link));
  ring->set_latency_us(link.latency_s * 1e6);
  ring->set_bytes_per_s(link.bytes_per_s);
  return absl::OkStatus();
}

absl::Status PlaceOnServers(const proto::Cluster& cluster, const std::vector<ClusterHost>& hosts,
                            JobPlaces* places) {
  const std::vector<ServerShards> servers = ServersOf(cluster, hosts);
  if (servers.empty()) return absl::InvalidArgumentError("servers: the cluster has none");
  std::vector<NodeHost> nodes;
  for (const uint32_t host : places->host_of_node) {
    nodes.push_back({.daemon = hosts[host].name,
                     .host = hosts[host].name,
                     .link_bytes_per_s = BytesPerSecond(hosts[host].link.gbit_per_s())});
  }
  const proto::Job& job = places->record.job();
  const uint64_t elements = places->record.layout().elements();
  auto choice = server::ChoosePlacement(job.placement(), elements * sizeof(float), nodes, servers);
  if (!choice.ok()) return absl::InvalidArgumentError(std::string(choice.status().message()));
  auto placement = server::PlaceChunks(elements, job.chunk_elements(), choice->servers);
  if (!placement.ok()) return placement.status();
  placement->placement.set_reason(choice->reason);
  *places->record.mutable_placement() = placement->placement;
  places->shards.resize(placement->placement.shard_endpoints_size());
  for (size_t i = 0; i < choice->servers.size(); ++i) {
    const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const ClusterHost& one) {
      return one.name == choice->servers[i].host;
    });
    for (const uint32_t shard : placement->shards_of_server[i]) {
      places->shards[shard] = {
          .host = static_cast<uint32_t>(host - hosts.begin()),
          .address = placement->placement.shard_endpoints(static_cast<int>(shard))};
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string RingAddress(const ClusterHost& host) { return absl::StrCat("tcp://", host.name, ":1"); }

std::vector<ClusterHost> ListHosts(const proto::Cluster& cluster) {
  std::vector<ClusterHost> hosts;
  std::map<std::string, uint32_t> named;  // groups may have the same name
  for (int g = 0; g < cluster.nodes_size(); ++g) {
    const proto::NodeGroup& group = cluster.nodes(g);
    for (uint32_t i = 0; i < group.count(); ++i) {
      hosts.push_back({.name = absl::StrCat(group.name(), "-", named[group.name()]++),
                       .group = g,
                       .link = group.link(),
                       .site = group.site()});
    }
  }
  if (!cluster.has_servers() || cluster.servers().on_nodes()) return hosts;
  for (uint32_t i = 0; i < cluster.servers().count(); ++i) {
    hosts.push_back({.name = absl::StrCat("server host ", i),
                     .group = -1,
                     .link = cluster.servers().link(),
                     .site = cluster.servers().site()});
  }
  return hosts;
}

absl::StatusOr<JobPlaces> PlaceJob(const proto::Job& job, const proto::Cluster& cluster,
                                   const proto::Layout& layout, uint64_t samples_per_epoch) {
  const std::vector<ClusterHost> hosts = ListHosts(cluster);
  JobPlaces places;
  places.record.set_job_id(1);
  *places.record.mutable_job() = job;
  *places.record.mutable_layout() = layout;
  places.record.set_samples_per_epoch(samples_per_epoch);
  if (absl::Status status = AllocateTo(job, hosts, cluster, &places); !status.ok()) return status;
  const absl::Status placed = job.exchange() == proto::Job::RING
                                  ? PlaceRing(cluster, hosts, &places)
                                  : PlaceOnServers(cluster, hosts, &places);
  if (!placed.ok()) return placed;
  places.record.mutable_job()->set_chunk_elements(places.record.placement().chunk_elements());
  return places;
}

}  // namespace strata::compare
