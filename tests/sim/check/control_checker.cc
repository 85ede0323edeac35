#include "tests/sim/check/control_checker.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"

namespace strata::sim {
namespace {

constexpr uint32_t kNoShard = 0xffffffff;

std::string BytesOf(const google::protobuf::Message& message) {
  return message.SerializeAsString();
}

}  // namespace

void ControlChecker::Violate(const std::string& invariant, uint32_t job, const std::string& what) {
  fail_(absl::StrFormat("%s: job %d: %s", invariant, job, what));
}

bool ControlChecker::OnState(uint32_t id, proto::JobState state) {
  Job& job = jobs_[id];
  if (job.state == state) return false;
  if (job.has_ended() || state < job.state) {
    Violate("ended jobs stay ended", id,
            absl::StrFormat("%s after %s", proto::JobState_Name(state),
                            proto::JobState_Name(job.state)));
  }
  job.state = state;
  return job.has_ended();
}

void ControlChecker::OnWord(const proto::Register& daemon, const proto::DaemonMessage& message) {
  if (message.has_register_()) {
    errors_.erase(daemon.name());
    const std::string here = absl::StrFormat("tcp://%s:", daemon.address());
    for (auto& [worker, errors] : errors_) {
      std::erase_if(errors, [&](const auto& one) { return absl::StartsWith(one.first, here); });
    }
  }
  for (const proto::PeerReach& peer : message.peers_tried().peers()) {
    errors_[daemon.name()][peer.address()] = peer.error();
  }
  if (message.has_job_installed()) {
    jobs_[message.job_installed().job_id()].installed.insert(daemon.name());
  }
}

void ControlChecker::OnCommand(const proto::Register& daemon,
                               const proto::CoordinatorMessage& message) {
  if (message.has_start_node()) {
    CheckRecord(message.start_node().record());
    Job& job = jobs_[message.start_node().record().job_id()];
    job.nodes[message.start_node().node()] = daemon.name();
  } else if (message.has_install_job()) {
    CheckRecord(message.install_job().record());
    CheckPlacement(message.install_job().record());
    TakeInstall(daemon, message.install_job());
  } else if (message.has_move_shard()) {
    CheckMove(message.move_shard());
  } else if (message.has_install_backup()) {
    CheckRecord(message.install_backup().record());
    if (!IsNext(message.install_backup())) CheckPlacement(message.install_backup().record());
    CheckNewBackup(daemon, message.install_backup());
  } else if (message.has_fill_next()) {
    CheckFillNext(message.fill_next());
  } else if (message.has_run_node()) {
    CheckRecord(message.run_node().record());
    CheckPlacement(message.run_node().record());
    CheckHolders(message.run_node().record());
  }
}

void ControlChecker::CheckRecord(const proto::JobRecord& record) {
  Job& job = jobs_[record.job_id()];
  if (job.has_ended()) Violate("ended jobs stay ended", record.job_id(), "a daemon is to begin it");
  if (job.token != 0 && job.token != record.token()) {
    Violate("views only grow", record.job_id(), "another token");
  }
  job.token = record.token();
  CheckView(record);
}

void ControlChecker::CheckView(const proto::JobRecord& record) {
  Job& job = jobs_[record.job_id()];
  const proto::View& view = record.view();
  const bool is_known = view.number() == job.view.number();
  if (view.number() < job.view.number() || (is_known && BytesOf(view) != BytesOf(job.view))) {
    Violate("views only grow", record.job_id(),
            absl::StrFormat("view %d after %d", view.number(), job.view.number()));
  }
  job.view = view;
  uint32_t next_rank = 0;
  for (int n = 0; n < view.nodes_size(); ++n) {
    const proto::LogicalNode& node = view.nodes(n);
    const bool follows = node.node() == static_cast<uint32_t>(n) && node.first_rank() == next_rank;
    if (!follows || node.ranks() == 0) {
      return Violate("each rank has one node", record.job_id(), view.ShortDebugString());
    }
    next_rank += node.ranks();
  }
  // If nodes may join, there is a place for every possible node.
  if (next_rank == std::max(record.job().ranks(), record.job().ranks_max())) return;
  Violate("each rank has one node", record.job_id(), view.ShortDebugString());
}

void ControlChecker::CheckPlacement(const proto::JobRecord& record) {
  Job& job = jobs_[record.job_id()];
  const proto::Placement& placement = record.placement();
  if (const std::string wrong = Compare(job.placement, placement); !wrong.empty()) {
    Violate("views only grow", record.job_id(), wrong);
  }
  if (job.placement.shard_of_chunk_size() == 0) CheckReach(record);
  job.placement = placement;
  if (record.job().exchange() == proto::Job::RING) return CheckRing(record);
  const ChunkMap map(record.layout().elements(), placement.chunk_elements());
  bool is_whole = placement.shard_of_chunk_size() == static_cast<int>(map.chunks());
  for (const uint32_t shard : placement.shard_of_chunk()) {
    is_whole = is_whole && static_cast<int>(shard) < placement.shard_endpoints_size();
  }
  if (!is_whole) Violate("each chunk has one shard", record.job_id(), "a chunk has none");
}

std::string ControlChecker::Compare(const proto::Placement& before, const proto::Placement& now) {
  if (before.shard_of_chunk_size() == 0) return "";
  const auto rest_of = [](const proto::Placement& placement) {
    proto::Placement rest = placement;
    rest.clear_shard_endpoints();
    rest.clear_backup_endpoints();
    rest.clear_shard_generations();
    return BytesOf(rest);
  };
  const bool is_same_kind = rest_of(before) == rest_of(now) &&
                            before.shard_endpoints_size() == now.shard_endpoints_size() &&
                            before.backup_endpoints_size() == now.backup_endpoints_size() &&
                            before.shard_generations_size() == now.shard_generations_size();
  if (!is_same_kind) {
    return absl::StrFormat("placement %d after %d", now.generation(), before.generation());
  }
  for (int s = 0; s < now.shard_endpoints_size(); ++s) {
    const bool may_move = s < now.shard_generations_size();
    const uint32_t is = may_move ? now.shard_generations(s) : 0;
    const uint32_t was = may_move ? before.shard_generations(s) : 0;
    const bool is_same = before.shard_endpoints(s) == now.shard_endpoints(s) &&
                         (!may_move || before.backup_endpoints(s) == now.backup_endpoints(s));
    if (is > was || (is == was && is_same)) continue;
    return absl::StrFormat("shard %d at %s in generation %d, then at %s in %d", s,
                           before.shard_endpoints(s), was, now.shard_endpoints(s), is);
  }
  return "";
}

void ControlChecker::OnSaved(const proto::StoredJob& stored) {
  Job& job = jobs_[stored.record().job_id()];
  const auto& generations = stored.record().placement().shard_generations();
  for (int s = 0; s < generations.size(); ++s) job.saved[s] = generations[s];
  job.next.clear();
  for (int s = 0; s < stored.status().shards_size(); ++s) {
    const proto::JobShardStatus& shard = stored.status().shards(s);
    if (shard.next_backup().empty()) continue;
    job.next[s] = {shard.next_generation(), shard.next_endpoint()};
  }
}

bool ControlChecker::IsNext(const proto::InstallBackup& install) const {
  const auto job = jobs_.find(install.record().job_id());
  const uint32_t shard = install.backup().shard();
  if (job == jobs_.end() || job->second.next.count(shard) == 0) return false;
  const proto::Placement& placement = install.record().placement();
  const auto& [generation, place] = job->second.next.at(shard);
  return placement.shard_generations(static_cast<int>(shard)) == generation &&
         placement.backup_endpoints(static_cast<int>(shard)) == place;
}

void ControlChecker::CheckFillNext(const proto::FillNext& fill) {
  if (fill.endpoint().empty()) return;
  const auto& next = jobs_[fill.job_id()].next;
  const auto saved = next.find(fill.shard());
  if (saved != next.end() && saved->second == std::pair(fill.generation(), fill.endpoint())) return;
  Violate("what is told is saved", fill.job_id(),
          absl::StrFormat("shard %d is to be filled at %s in generation %d", fill.shard(),
                          fill.endpoint(), fill.generation()));
}

// Assignments that were sent but not saved are forgotten with the process, and then made again.
void ControlChecker::CheckMove(const proto::MoveShard& move) {
  Job& job = jobs_[move.job_id()];
  const std::string place = absl::StrFormat("%s and '%s'", move.endpoint(), move.backup_endpoint());
  const auto where =
      absl::StrFormat("shard %d at %s in generation %d", move.shard(), place, move.generation());
  if (job.saved[move.shard()] != move.generation()) {
    Violate("what is told is saved", move.job_id(),
            absl::StrFormat("%s, saved is %d", where, job.saved[move.shard()]));
  }
  const auto [told, is_new] = job.told.emplace(std::pair(move.shard(), move.generation()), place);
  if (is_new || told->second == place) return;
  Violate("a generation has one place", move.job_id(),
          absl::StrFormat("%s, before at %s", where, told->second));
}

void ControlChecker::CheckNewBackup(const proto::Register& daemon,
                                    const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const uint32_t shard = install.backup().shard(), thread = install.backup().thread();
  const proto::Placement& placement = record.placement();
  const uint32_t generation = placement.shard_generations(static_cast<int>(shard));
  if (!IsNext(install) && jobs_[record.job_id()].saved[shard] != generation) {
    Violate("what is told is saved", record.job_id(),
            absl::StrFormat("a copy of shard %d in generation %d, saved is %d", shard, generation,
                            jobs_[record.job_id()].saved[shard]));
  }
  const bool has_thread = static_cast<int>(thread) < daemon.shard_ports_size();
  const std::string here =
      absl::StrFormat("tcp://%s:%d", daemon.address(), has_thread ? daemon.shard_ports(thread) : 0);
  const std::string& there = placement.backup_endpoints(static_cast<int>(shard));
  if (here == there) return;
  Violate("a generation has one place", record.job_id(),
          absl::StrFormat("a copy of shard %d is to lie at %s and at %s", shard, here, there));
}

// All nodes have addresses, and the algorithm is one of the two, the same for all.
void ControlChecker::CheckRing(const proto::JobRecord& record) {
  Job& job = jobs_[record.job_id()];
  const proto::Ring& ring = record.ring();
  const bool is_whole = ring.endpoints_size() == record.view().nodes_size() &&
                        ring.algorithm() != proto::AllReduce::AUTO;
  if (!is_whole) Violate("all nodes are in the ring", record.job_id(), ring.ShortDebugString());
  if (!job.ring.empty() && job.ring != BytesOf(ring)) {
    Violate("views only grow", record.job_id(), "another ring");
  }
  job.ring = BytesOf(ring);
}

// At placement; it may change later.
void ControlChecker::CheckReach(const proto::JobRecord& record) {
  for (const auto& [node, worker] : jobs_[record.job_id()].nodes) {
    for (const std::string& address : record.placement().shard_endpoints()) {
      const std::string& error = errors_[worker][address];
      if (error.empty()) continue;
      Violate("nodes reach their shards", record.job_id(),
              absl::StrFormat("%s is placed at %s: %s", worker, address, error));
    }
  }
}

void ControlChecker::TakeInstall(const proto::Register& daemon, const proto::InstallJob& install) {
  const proto::JobRecord& record = install.record();
  jobs_[record.job_id()].to_install.insert(daemon.name());
  for (int s = 0; s < install.own_shards_size(); ++s) {
    const uint32_t shard = install.own_shards(s);
    if (shard == kNoShard) continue;
    if (s >= daemon.shard_ports_size() ||
        static_cast<int>(shard) >= record.placement().shard_endpoints_size()) {
      Violate("each chunk has one shard", record.job_id(),
              absl::StrFormat("shard %d lies on shard %d of %s", shard, s, daemon.name()));
      continue;
    }
    const std::string here =
        absl::StrFormat("tcp://%s:%d", daemon.address(), daemon.shard_ports(s));
    const auto [holder, is_new] = jobs_[record.job_id()].holders.emplace(shard, here);
    if (holder->second == here &&
        record.placement().shard_endpoints(static_cast<int>(shard)) == here) {
      continue;
    }
    Violate("each chunk has one shard", record.job_id(),
            absl::StrFormat("shard %d lies at %s, nodes look for it at %s", shard, here,
                            record.placement().shard_endpoints(static_cast<int>(shard))));
  }
}

// Nodes train when all shards are there.
void ControlChecker::CheckHolders(const proto::JobRecord& record) {
  const Job& job = jobs_[record.job_id()];
  const size_t held = job.installed == job.to_install ? job.holders.size() : 0;
  if (static_cast<int>(held) == record.placement().shard_endpoints_size()) return;
  Violate("each chunk has one shard", record.job_id(),
          absl::StrFormat("%d of %d shards are held when it trains", held,
                          record.placement().shard_endpoints_size()));
}

}  // namespace strata::sim
