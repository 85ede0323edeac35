// The part of JobTable that decides on which workers and servers a job runs: a server that a worker
// cannot reach holds no job up that has another.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/exchange/same_host.h"
#include "common/limits/limits.h"
#include "common/log.h"
#include "server/coordinator/jobs/job_table.h"
#include "server/coordinator/placement/placement.h"
#include "server/coordinator/placement/placement_choice.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::server {
namespace {

std::vector<std::string> DaemonsOf(const std::vector<RankBlock>& blocks) {
  std::vector<std::string> daemons;
  for (const RankBlock& block : blocks) daemons.push_back(block.daemon);
  return daemons;
}

std::vector<ServerShards> ShardsOf(const std::vector<const Daemon*>& servers) {
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
std::string Without(const std::vector<std::pair<std::string, std::string>>& servers) {
  constexpr size_t kNamesMax = 3;
  std::string text;
  for (size_t i = 0; i < servers.size() && i < kNamesMax; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", "without server ", servers[i].first, ": ",
                    servers[i].second);
  }
  if (servers.size() <= kNamesMax) return text;
  return absl::StrCat(text, "; without ", servers.size() - kNamesMax, " more");
}

}  // namespace

JobTable::CommonServers JobTable::ReachedByAll(const std::vector<std::string>& workers,
                                               absl::Time now) const {
  using State = Reachability::State;
  CommonServers common;
  for (const Daemon* server : membership_->Alive(proto::SERVER)) {
    const std::string& name = server->registration.name();
    Reachability::Verdict worst;
    if (server->session == SessionId()) {
      worst = {State::kTrying, absl::StrFormat("waits for server %s to come back", name)};
    }
    for (const std::string& worker : workers) {
      const Reachability::Verdict verdict = reachability_->Between(worker, name, now);
      if (worst.state != State::kFailed && verdict.state != State::kReached) worst = verdict;
    }
    if (worst.state == State::kReached) common.reached.push_back(server);
    if (worst.state == State::kTrying) common.pending = worst.text;
    if (worst.state == State::kFailed) common.left_out.emplace_back(name, worst.text);
  }
  return common;
}

// Workers that reach all servers come first; where there are too few of those, the workers that
// have the most servers in common. Not kFits: nowhere have enough workers one in common.
RankAllocation JobTable::AllocateWhereReached(const JobEntry& entry,
                                              const std::vector<WorkerSlots>& workers,
                                              absl::Time now) const {
  const std::vector<const Daemon*> servers = membership_->Alive(proto::SERVER);
  const RankWish wish = WishOf(entry.job());
  const auto allocate_on = [&](const std::vector<const Daemon*>& needed) {
    std::vector<WorkerSlots> able = workers;
    for (WorkerSlots& worker : able) {
      for (const Daemon* server : needed) {
        if (FreeFor(wish, worker) == 0) break;
        const auto reach = reachability_->Between(worker.daemon, server->registration.name(), now);
        if (reach.state == Reachability::State::kFailed) worker.used = worker.slots;
      }
    }
    return AllocateRanks(wish, able);
  };
  RankAllocation best = allocate_on(servers);
  if (best.outcome == RankAllocation::Outcome::kFits) return best;
  size_t most = 0;
  for (const Daemon* server : servers) {
    RankAllocation allocation = allocate_on({server});
    if (allocation.outcome != RankAllocation::Outcome::kFits) continue;
    const size_t left_out = ReachedByAll(DaemonsOf(allocation.blocks), now).left_out.size();
    if (servers.size() - left_out <= most) continue;
    most = servers.size() - left_out;
    best = std::move(allocation);
  }
  return best;
}

// While no server is reached by enough workers the job waits, and lets others pass. REQUIRES: the
// job fits on `workers`.
void JobTable::StartWhereReached(JobEntry* entry, const std::vector<WorkerSlots>& workers,
                                 absl::Time now) {
  const bool has_servers = entry->needs_servers();
  const RankWish wish = WishOf(entry->job());
  const RankAllocation allocation =
      has_servers ? AllocateWhereReached(*entry, workers, now) : AllocateRanks(wish, workers);
  if (allocation.outcome == RankAllocation::Outcome::kFits) {
    const CommonServers common = ReachedByAll(DaemonsOf(allocation.blocks), now);
    if (has_servers && !common.pending.empty()) return SetReason(entry, common.pending);
    return Start(entry, allocation.blocks, now);
  }
  for (const WorkerSlots& worker : workers) {
    const CommonServers common = ReachedByAll({worker.daemon}, now);
    if (FreeFor(wish, worker) == 0 || common.left_out.empty()) continue;
    return SetReason(entry, common.left_out[0].second);
  }
}

std::vector<NodeHost> JobTable::HostsOf(const std::vector<JobNode>& nodes) const {
  std::vector<NodeHost> hosts;
  for (const JobNode& node : nodes) {
    NodeHost& host = hosts.emplace_back();
    host.daemon = node.daemon;
    const Daemon* daemon = membership_->Find(node.daemon);
    if (daemon == nullptr) continue;
    host.host = daemon->registration.host();
    host.link_bytes_per_s = daemon->registration.link_bytes_per_s();
  }
  return hosts;
}

// Where all payloads go by reference, headers alone need no second connection.
void JobTable::SettleConnections(JobEntry* entry, const std::vector<ServerShards>& servers) const {
  if (entry->job().same_host() != proto::Job::REGIONS || PushesGoByValue(entry->job())) return;
  std::vector<std::string> hosts;
  for (const NodeHost& node : HostsOf(entry->nodes)) hosts.push_back(node.host);
  for (const ServerShards& server : servers) hosts.push_back(server.host);
  const bool is_one_host = std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return !host.empty() && host == hosts.front();
  });
  if (!is_one_host) return;
  entry->stored.mutable_record()->mutable_job()->set_connections(1);
  entry->status().mutable_job()->set_connections(1);
}

// Places the chunks on servers that all nodes reach and that fit the job's wish, once it is known
// which those are. Those that come back from a break, or have just joined, are waited for, but not
// for long. REQUIRES: all nodes are ready.
void JobTable::Install(JobEntry* entry, absl::Time now) {
  if (entry->is_ring()) return InstallRing(entry, now);
  if (!entry->needs_servers()) return InstallOn({}, entry, now);
  const std::vector<NodeHost> nodes = HostsOf(entry->nodes);
  std::vector<std::string> workers;
  for (const NodeHost& node : nodes) workers.push_back(node.daemon);
  const CommonServers common = ReachedByAll(workers, now);
  const absl::StatusOr<PlacementChoice> choice =
      ChoosePlacement(entry->job().placement(), entry->status().elements() * sizeof(float), nodes,
                      ShardsOf(common.reached));
  entry->place_since = std::min(entry->place_since, now);
  std::string why = !common.pending.empty()    ? common.pending
                    : !common.left_out.empty() ? common.left_out[0].second
                                               : "";
  if (!common.reached.empty() && !choice.ok()) {
    why = absl::StrCat(choice.status().message(), why.empty() ? "" : "; ", why);
  }
  const bool may_change = !common.pending.empty() || !choice.ok();
  if (may_change && now - entry->place_since < options_.place_patience) {
    return SetReason(entry, why.empty() ? "waits for a server: none is alive" : why);
  }
  if (!choice.ok()) return Fail(entry, why.empty() ? "no server is alive" : why, now);
  entry->left_out = Without(common.left_out);
  if (!entry->left_out.empty()) {
    actions_->Warn(absl::StrFormat("job %d (%s) runs %s", entry->id().value(), entry->job().name(),
                                   entry->left_out));
  }
  LogInfo("job %d (%s): placement %s", entry->id().value(), entry->job().name(), choice->reason);
  InstallOn(*choice, entry, now);
}

void JobTable::InstallOn(const PlacementChoice& choice, JobEntry* entry, absl::Time now) {
  absl::StatusOr<JobPlacement> placement = PlaceChunks(
      entry->stored.record().layout().elements(), entry->job().chunk_elements(), choice.servers);
  if (!placement.ok()) return Fail(entry, std::string(placement.status().message()), now);
  SettleConnections(entry, choice.servers);
  const int shards = placement->placement.shard_endpoints_size();
  const uint32_t connections = entry->job().connections();
  if (shards * connections > kConnectionsPerNodeMax) {
    return Fail(entry,
                absl::StrFormat("connections: %d to each of %d shards are %d of a node; at most %d "
                                "are possible",
                                connections, shards, shards * connections, kConnectionsPerNodeMax),
                now);
  }
  placement->placement.set_reason(choice.reason);
  entry->SetPlacement(*placement, choice.servers);
  // A message that is too long would end the line to its daemon.
  if (const uint64_t bytes = entry->stored.record().ByteSizeLong(); bytes > kJobRecordBytesMax) {
    return Fail(
        entry,
        absl::StrFormat("the job's record has %d bytes, at most %d are possible: it has %d "
                        "tensors and %d chunks",
                        bytes, kJobRecordBytesMax, entry->stored.record().layout().segments_size(),
                        entry->status().chunks()),
        now);
  }
  if (choice.servers.empty()) return Train(entry, now);
  entry->phase = JobPhase::kInstalling;
  SetReason(entry, "waits for its servers");
  for (const JobServer& server : entry->servers) SendInstall(*entry, server);
}

}  // namespace strata::server
