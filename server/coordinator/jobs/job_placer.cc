#include "server/coordinator/jobs/job_placer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/all_reduce.h"
#include "common/job/arena.h"
#include "common/job/connections.h"
#include "common/os/limits.h"
#include "common/require.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {
namespace {

std::vector<ServerShards> ListShards(const std::vector<const Daemon*>& servers) {
  std::vector<ServerShards> shards;
  for (const Daemon* daemon : servers) {
    const proto::Register& r = daemon->registration;
    shards.push_back({.daemon = r.name(),
                      .address = r.address(),
                      .ports = {r.shard_ports().begin(), r.shard_ports().end()},
                      .host = r.host(),
                      .link_bytes_per_s = r.link_bytes_per_s(),
                      .share = 0});
  }
  return shards;
}

// "without server s1: worker w1 cannot reach ...; without server s2: ..."
std::string DescribeLeftOut(const std::vector<std::pair<std::string, std::string>>& servers) {
  constexpr size_t kNamesMax = 3;
  std::string text;
  for (size_t i = 0; i < servers.size() && i < kNamesMax; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", "without server ", servers[i].first, ": ",
                    servers[i].second);
  }
  if (servers.size() <= kNamesMax) return text;
  return absl::StrCat(text, "; without ", servers.size() - kNamesMax, " more");
}

LinkCost SlowestLink(absl::Span<const JobNode> nodes) {
  LinkCost slowest{.latency_s = 0, .bytes_per_s = 1e18};
  for (const JobNode& node : nodes) {
    STRATA_REQUIRE(node.link().has_value());
    slowest.latency_s = std::max(slowest.latency_s, node.link()->latency_us() / 1e6);
    slowest.bytes_per_s = std::min(slowest.bytes_per_s, node.link()->bytes_per_s());
  }
  return slowest;
}

}  // namespace

JobPlacer::Verdict JobPlacer::Choose(const JobEntry& entry, absl::Time now) {
  STRATA_REQUIRE(entry.needs_servers() && entry.all_ready());
  const std::vector<NodeHost> nodes = LocateNodes(entry.nodes());
  std::vector<std::string> workers;
  for (const NodeHost& node : nodes) workers.push_back(node.daemon);
  const ReachedServers::Common common = Usable(workers, now);
  const uint64_t model_bytes = entry.stored().status().elements() * sizeof(float);
  const absl::StatusOr<PlacementChoice> choice =
      ChoosePlacement(entry.job().placement(), model_bytes, nodes, ListShards(common.reached));
  const absl::Time since = waits_since_.try_emplace(entry.id(), now).first->second;
  std::string why = !common.pending.empty()    ? common.pending
                    : !common.left_out.empty() ? common.left_out[0].second
                                               : "";
  if (!common.reached.empty() && !choice.ok()) {
    why = absl::StrCat(choice.status().message(), why.empty() ? "" : "; ", why);
  }
  const absl::Status lies_twice = entry.job().replicas() > 0 && choice.ok()
                                      ? CheckTwoHosts(ListShards(common.reached))
                                      : absl::OkStatus();
  if (!lies_twice.ok()) why = std::string(lies_twice.message());
  const bool may_change = !common.pending.empty() || !choice.ok() || !lies_twice.ok();
  if (may_change && now - since < patience_) {
    return {.kind = Verdict::Kind::kWaits,
            .reason = why.empty() ? "waits for a server: none is alive" : why};
  }
  if (!choice.ok() || !lies_twice.ok()) {
    return {.kind = Verdict::Kind::kFails, .reason = why.empty() ? "no server is alive" : why};
  }
  Verdict placed{.kind = Verdict::Kind::kPlaced,
                 .choice = *choice,
                 .left_out = DescribeLeftOut(common.left_out)};
  for (ServerShards& server : ListShards(common.reached)) {
    const bool is_chosen =
        std::any_of(choice->servers.begin(), choice->servers.end(),
                    [&](const ServerShards& chosen) { return chosen.daemon == server.daemon; });
    if (!is_chosen) placed.others.push_back(std::move(server));
  }
  return placed;
}

absl::Status JobPlacer::Place(const PlacementChoice& choice,
                              const std::vector<ServerShards>& others, JobEntry* entry) const {
  STRATA_REQUIRE(entry->all_ready());
  // Nodes may join from any host.
  if (entry->has_joiners() || !IsOnOneHost({}, *entry)) {
    const absl::Status may = AllowForeignTraffic(protection_(), entry->job());
    if (!may.ok()) return may;
  }
  const uint64_t elements = entry->stored().record().layout().elements();
  uint32_t chunk_elements = entry->job().chunk_elements();
  if (chunk_elements == 0 && entry->job().device() == proto::Job::GPU) {
    uint32_t shards = 0;
    for (const ServerShards& server : choice.servers) shards += server.ports.size();
    chunk_elements = DeviceChunkElements(elements, shards);
  }
  absl::StatusOr<JobPlacement> placement = PlaceChunks(elements, chunk_elements, choice.servers);
  if (!placement.ok()) return placement.status();
  SettleConnections(choice.servers, entry);
  const bool has_rows = entry->stored().record().layout().tables_size() > 0;
  if (has_rows) {
    // A job that goes on has the checkpoint's: a bucket's pushes are counted as a whole.
    const auto from =
        static_cast<uint32_t>(entry->stored().resume().from().placement().shard_of_bucket_size());
    const uint32_t buckets = entry->stored().record().has_resume() ? from : 0;
    PlaceBuckets(buckets != 0 ? buckets : entry->job().rows().buckets(), choice.servers,
                 &placement->placement);
  }
  const int shards = placement->placement.shard_endpoints_size();
  const uint32_t connections = ShardConnections(entry->stored().record());
  if (shards * connections > kConnectionsPerNodeMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("connections: %d to each of %d shards are %d of a node; at most %d are "
                        "possible",
                        connections, shards, shards * connections, kConnectionsPerNodeMax));
  }
  placement->placement.set_reason(choice.reason);
  std::vector<ServerShards> servers = choice.servers;
  std::vector<std::optional<BackupPlace>> backups;
  if (entry->job().replicas() > 0) {
    servers.insert(servers.end(), others.begin(), others.end());
    auto places = PlaceBackups(*placement, servers);
    if (!places.ok()) return places.status();
    backups = *std::move(places);
  }
  entry->SetPlacement(*placement, servers, backups);
  // An oversized message would end the daemon's connection.
  const proto::JobRecord& record = entry->stored().record();
  if (const uint64_t bytes = record.ByteSizeLong(); bytes > kJobRecordBytesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the job's record has %d bytes, at most %d are possible: it has %d tensors and %d chunks",
        bytes, kJobRecordBytesMax, record.layout().segments_size(), entry->status().chunks()));
  }
  return absl::OkStatus();
}

ReachedServers::Common JobPlacer::Usable(const std::vector<std::string>& workers,
                                         absl::Time now) const {
  ReachedServers::Common common = reached_->ByAll(workers, now);
  std::erase_if(common.reached, [&](const Daemon* server) {
    const std::string& name = server->registration.name();
    if (!membership_->IsDraining(name)) return false;
    common.left_out.emplace_back(name, absl::StrCat("server ", name, " is being drained"));
    return true;
  });
  return common;
}

JobPlacer::NewBackup JobPlacer::PlaceOneBackup(const JobEntry& entry, ShardId shard,
                                               const std::string& beside,
                                               const std::set<std::string>& passed_over,
                                               absl::Time now) const {
  std::vector<std::string> workers;
  for (const JobNode& node : entry.nodes()) {
    if (!node.finished()) workers.push_back(node.daemon());
  }
  NewBackup made{.why = "no other server that all of its nodes reach takes it"};
  std::string host;
  for (const ServerShards& server : ListShards(reached_->ByAll(workers, now).reached)) {
    if (server.daemon == beside) host = HostOf(server);
  }
  if (host.empty() && !beside.empty()) {  // is there a server to fill another one from?
    made.why = absl::StrCat("server ", beside, " is not there now");
    return made;
  }
  const proto::JobStatus& status = entry.stored().status();
  const proto::JobShardStatus& home = status.shards(static_cast<int>(shard.value()));
  ReachedServers::Common usable = Usable(workers, now);
  std::erase_if(usable.reached, [&](const Daemon* server) {
    return server->registration.protocol_version() != entry.protocol();
  });
  for (ServerShards& server : ListShards(usable.reached)) {
    if (passed_over.contains(server.daemon)) continue;
    if (server.daemon == home.daemon() || server.daemon == home.backup()) continue;
    made.servers.push_back(std::move(server));
  }
  made.place = server::PlaceOneBackup(status, shard, host, made.servers);
  if (!host.empty()) absl::StrAppend(&made.why, ", on another host than server ", beside);
  return made;
}

absl::Status JobPlacer::PlaceOnRing(JobEntry* entry) const {
  STRATA_REQUIRE(entry->all_ready());
  if (absl::Status placed = PlaceRing(entry); !placed.ok()) return placed;
  SettleConnections({}, entry);
  return absl::OkStatus();
}

void JobPlacer::Excuse(absl::Duration gap, absl::Time now) {
  for (auto& [job, since] : waits_since_) since = Excused(since, gap, now);
}

std::vector<NodeHost> JobPlacer::LocateNodes(absl::Span<const JobNode> nodes) const {
  std::vector<NodeHost> hosts;
  for (const JobNode& node : nodes) {
    if (node.absent()) continue;
    NodeHost& host = hosts.emplace_back();
    host.daemon = node.daemon();
    const Daemon* daemon = membership_->Find(node.daemon());
    if (daemon == nullptr) continue;
    host.host = daemon->registration.host();
    host.link_bytes_per_s = daemon->registration.link_bytes_per_s();
  }
  return hosts;
}

bool JobPlacer::IsOnOneHost(const std::vector<ServerShards>& servers, const JobEntry& entry) const {
  std::vector<std::string> hosts;
  for (const NodeHost& node : LocateNodes(entry.nodes())) hosts.push_back(node.host);
  for (const ServerShards& server : servers) hosts.push_back(server.host);
  return std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return !host.empty() && host == hosts.front();
  });
}

void JobPlacer::SettleConnections(const std::vector<ServerShards>& servers, JobEntry* entry) const {
  if (entry->job().same_host() != proto::Job::REGIONS || PushesGoByValue(entry->job())) return;
  if (!IsOnOneHost(servers, *entry)) return;
  entry->mutable_stored()->mutable_record()->mutable_job()->set_connections(1);
  entry->status().mutable_job()->set_connections(1);
}

absl::Status CheckRing(const JobEntry& entry) {
  absl::Span<const JobNode> nodes = entry.nodes();
  const bool one_is_enough = entry.job().has_program();
  if (nodes.empty() || (nodes.size() < 2 && !one_is_enough)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "exchange: RING needs two nodes, but all %d ranks are on worker %s: set ranks_per_node, or "
        "use PARAMETER_SERVER",
        entry.job().ranks(), nodes.empty() ? "" : nodes[0].daemon()));
  }
  for (const JobNode& node : nodes) {
    if (!node.ready() || !node.info().endpoint().empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s does not say where its aggregator listens", node.Describe()));
  }
  return absl::OkStatus();
}

absl::Status PlaceRing(JobEntry* entry) {
  STRATA_REQUIRE(entry->all_ready());
  if (absl::Status status = CheckRing(*entry); !status.ok()) return status;
  proto::JobRecord* record = entry->mutable_stored()->mutable_record();
  const auto nodes = static_cast<uint32_t>(entry->nodes().size());
  const uint64_t elements = record->layout().elements();
  const uint32_t chunk_elements = entry->job().chunk_elements();
  if (elements < nodes || (chunk_elements != 0 && chunk_elements < nodes)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "exchange: RING cuts each chunk into %d slices, one per node, but %s has %d elements",
        nodes, elements < nodes ? "the model" : "a chunk",
        elements < nodes ? elements : chunk_elements));
  }
  const uint32_t placed_elements =
      chunk_elements != 0 ? chunk_elements : DefaultAllReduceChunkElements(elements, nodes);
  absl::StatusOr<JobPlacement> placement = PlaceChunks(elements, placed_elements, {});
  if (!placement.ok()) return placement.status();
  entry->SetPlacement(*placement, {});
  proto::Ring* ring = record->mutable_ring();
  ring->Clear();
  for (const JobNode& node : entry->nodes()) ring->add_endpoints(node.info().endpoint());
  // A single node has nothing to choose by.
  ring->set_algorithm(nodes > 1 ? entry->job().all_reduce().algorithm() : proto::AllReduce::RING);
  const proto::JobRecord& from = entry->stored().resume().from();
  const bool is_measured = ring->algorithm() == proto::AllReduce::AUTO && record->has_resume();
  if (is_measured && static_cast<uint32_t>(from.view().nodes_size()) == nodes) {
    // Another order of summation would give other bits.
    ring->set_algorithm(from.ring().algorithm());
  }
  return absl::OkStatus();
}

void ChooseRingAlgorithm(JobEntry* entry) {
  const LinkCost link = SlowestLink(entry->nodes());
  const AllReduceWork work = {.nodes = static_cast<uint32_t>(entry->nodes().size()),
                              .bytes = entry->stored().record().layout().elements() * sizeof(float),
                              .chunks = entry->status().chunks(),
                              .window = entry->job().window()};
  proto::Ring* ring = entry->mutable_stored()->mutable_record()->mutable_ring();
  ring->set_algorithm(FasterAllReduce(work, link));
  ring->set_latency_us(link.latency_s * 1e6);
  ring->set_bytes_per_s(link.bytes_per_s);
  entry->status().mutable_job()->mutable_all_reduce()->set_algorithm(ring->algorithm());
  *entry->status().mutable_ring() = *ring;
}

}  // namespace strata::server
