#include "tests/sim/check/view_checker.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/job.h"

namespace strata::sim {

namespace {

bool IsVoid(const proto::ViewChange& change) {
  return change.joined().empty() && change.left().empty();
}

const proto::ViewChange* FindChange(const proto::JobRecord& record, uint32_t number) {
  for (const proto::ViewChange& change : record.view_changes()) {
    if (change.number() == number) return &change;
  }
  return nullptr;
}

std::string BytesOf(const google::protobuf::Message& message) {
  return message.SerializeAsString();
}

}  // namespace

void ViewChecker::Violate(const std::string& invariant, uint32_t job, const std::string& what) {
  fail_(absl::StrFormat("%s: job %d: %s", invariant, job, what));
}

void ViewChecker::OnSaved(const proto::StoredJob& stored) {
  const uint32_t id = stored.record().job_id();
  Job& job = jobs_[id];
  const auto& before = job.stored.record().view_changes();
  const auto& now = stored.record().view_changes();
  if (before.empty()) {
    proto::JobRecord record = stored.record();
    record.clear_view_changes();
    job.views = *Views::Of(record);
  }
  bool goes_on = now.size() >= before.size();
  for (int i = 0; goes_on && i < before.size(); ++i) {
    goes_on = BytesOf(now[i]) == BytesOf(before[i]);
  }
  if (!goes_on) {
    return Violate("a decided change is never undone", id,
                   absl::StrFormat("%d changes after %d", now.size(), before.size()));
  }
  const bool grows = stored.view_proposed() >= job.stored.view_proposed() &&
                     stored.view_told() >= job.stored.view_told();
  if (!grows) {
    return Violate(
        "numbers of changes only grow", id,
        absl::StrFormat("%d asked, %d told, after %d and %d", stored.view_proposed(),
                        stored.view_told(), job.stored.view_proposed(), job.stored.view_told()));
  }
  for (int i = before.size(); i < now.size(); ++i) {
    CheckDecided(job, stored, now[i]);
    if (const absl::Status added = job.views.Add(now[i]); !added.ok()) {
      return Violate("each clock has one view", id, std::string(added.message()));
    }
  }
  if (stored.view_told() > job.stored.view_told()) CheckInstalled(job, stored);
  if (DropsLost(stored.record().job())) CheckDropped(job, stored);
  job.stored = stored;
}

void ViewChecker::CheckDecided(const Job& job, const proto::StoredJob& stored,
                               const proto::ViewChange& change) {
  const uint32_t id = stored.record().job_id();
  if (change.number() > job.stored.view_proposed()) {
    Violate("a number is saved before anybody is asked", id,
            absl::StrFormat("change %d is decided, saved is %d", change.number(),
                            job.stored.view_proposed()));
  }
  if (DropsLost(stored.record().job())) return CheckRingDecided(job, stored, change);
  for (const NodeId node : job.views.NodesAt(job.views.newest_clock())) {
    const auto found = job.processes.find(node.value());
    const Process process = found == job.processes.end() ? Process() : found->second;
    const uint32_t incarnation =
        std::max(1u, stored.status().nodes(static_cast<int>(node.value())).incarnation());
    const bool has_promised = process.incarnation == incarnation &&
                              process.promised == change.number() &&
                              process.from_clock <= change.at_clock();
    if (has_promised) continue;
    return Violate("all nodes promise before a change is decided", id,
                   absl::StrFormat("change %d is at clock %d: node %d, incarnation %d: promised %d "
                                   "from %d on, in incarnation %d",
                                   change.number(), change.at_clock(), node.value(), incarnation,
                                   process.promised, process.from_clock, process.incarnation));
  }
}

void ViewChecker::CheckInstalled(const Job& job, const proto::StoredJob& stored) {
  const uint32_t number = stored.view_told();
  for (const proto::JobShardStatus& shard : stored.status().shards()) {
    // A server without chunks of the shard is named there even if it is gone.
    if (shard.chunks() == 0) continue;
    for (const std::string& server : {shard.daemon(), shard.backup()}) {
      const auto installed = job.installed.find(server);
      if (installed == job.installed.end() || installed->second >= number) continue;
      const auto given = job.in_record.find(server);
      if (given != job.in_record.end() && given->second >= number) continue;
      return Violate(
          "nodes are told once all servers have it", stored.record().job_id(),
          absl::StrFormat("change %d, server %s has %d", number, server, installed->second));
    }
  }
}

void ViewChecker::OnCommand(const proto::Register& daemon,
                            const proto::CoordinatorMessage& message) {
  if (message.has_start_node() && daemon.stands_in()) {
    return CheckStandIn(daemon, message.start_node());
  }
  if (message.has_change_view()) return CheckChangeAnnounced(daemon, message.change_view());
  if (message.has_stop_ring() || message.has_form_ring())
    return CheckRingAnnounced(daemon, message);
  if (message.has_install_backup()) {
    const proto::JobRecord& record = message.install_backup().record();
    const auto& changes = record.view_changes();
    if (changes.empty()) return;
    jobs_[record.job_id()].in_record[daemon.name()] = changes.rbegin()->number();
  }
  if (!message.has_propose_view()) return;
  const proto::ProposeView& propose = message.propose_view();
  const proto::StoredJob& stored = jobs_[propose.job_id()].stored;
  if (stored.view_proposed() < propose.number()) {
    Violate("a number is saved before anybody is asked", propose.job_id(),
            absl::StrFormat("%d, saved is %d", propose.number(), stored.view_proposed()));
  }
  const bool is_over = FindChange(stored.record(), propose.number()) != nullptr ||
                       propose.number() <= jobs_[propose.job_id()].given_up;
  if (!is_over) return;
  Violate("numbers of changes only grow", propose.job_id(),
          absl::StrFormat("%d is asked about, which is decided or void", propose.number()));
}

// Neither a joining node nor one that was taken off its worker and could have stayed.
void ViewChecker::CheckStandIn(const proto::Register& daemon, const proto::StartNode& start) {
  const uint32_t id = start.record().job_id();
  const proto::JobStatus& status = jobs_[id].stored.status();
  const auto& rows = status.replacements();
  const auto newest = std::find_if(rows.rbegin(), rows.rend(),
                                   [&](const auto& row) { return row.node() == start.node(); });
  const bool joins = static_cast<int>(start.node()) >= status.nodes_size() ||
                     status.nodes(static_cast<int>(start.node())).joins();
  const bool has_died = !joins && newest != rows.rend() &&
                        !absl::StrContains(newest->reason(), " is being drained") &&
                        !absl::StrContains(newest->reason(), " only stands in");
  if (has_died) return;
  Violate("who stands in takes only nodes that have died", id,
          absl::StrFormat("node %d begins on %s", start.node(), daemon.name()));
}

void ViewChecker::CheckChangeAnnounced(const proto::Register& daemon,
                                       const proto::ViewChange& change) {
  const uint32_t id = change.job_id();
  const proto::StoredJob& stored = jobs_[id].stored;
  const proto::ViewChange* const saved = FindChange(stored.record(), change.number());
  if (IsVoid(change)) {
    uint32_t& given_up = jobs_[id].given_up;
    given_up = std::max(given_up, change.number());
    if (saved == nullptr) return;
    return Violate(
        "a decided change is never undone", id,
        absl::StrFormat("%s hears that change %d is void", daemon.name(), change.number()));
  }
  if (saved == nullptr || BytesOf(*saved) != BytesOf(change)) {
    return Violate("a change is saved before it is said", id,
                   absl::StrFormat("change %d to %s", change.number(), daemon.name()));
  }
  if (daemon.role() == proto::SERVER || change.number() <= stored.view_told()) return;
  Violate("nodes are told once all servers have it", id,
          absl::StrFormat("change %d to %s, saved is %d", change.number(), daemon.name(),
                          stored.view_told()));
}

void ViewChecker::OnInstalled(const std::string& server, uint32_t job, uint32_t number) {
  uint32_t& installed = jobs_[job].installed[server];
  installed = std::max(installed, number);
}

void ViewChecker::OnRemoved(const std::string& server, uint32_t job) {
  jobs_[job].installed.erase(server);
}

void ViewChecker::OnServerGone(const std::string& server) {
  for (auto& [id, job] : jobs_) job.installed.erase(server);
}

void ViewChecker::OnRun(uint32_t node, uint32_t incarnation, const proto::JobRecord& record) {
  Job& job = jobs_[record.job_id()];
  if (incarnation < job.processes[node].incarnation) return;  // it begins late
  job.processes[node] = {.incarnation = incarnation};
  for (const proto::ViewChange& change : record.view_changes()) {
    if (change.number() <= job.stored.view_told()) continue;
    return Violate("nodes are told once all servers have it", record.job_id(),
                   absl::StrFormat("node %d begins with change %d, told is %d", node,
                                   change.number(), job.stored.view_told()));
  }
}

bool ViewChecker::IsNewest(uint32_t id, uint32_t node, uint32_t incarnation) const {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return true;
  const auto process = job->second.processes.find(node);
  return process == job->second.processes.end() || process->second.incarnation <= incarnation;
}

void ViewChecker::OnPromised(uint32_t job, uint32_t node, uint32_t number, uint64_t from_clock) {
  Process& process = jobs_[job].processes[node];
  process.promised = number;
  process.from_clock = from_clock;
  process.is_bound = true;
}

void ViewChecker::OnHeard(uint32_t job, uint32_t node, uint32_t number) {
  Process& process = jobs_[job].processes[node];
  if (number >= process.promised) process.is_bound = false;
}

void ViewChecker::OnStep(uint32_t job, uint32_t node, uint64_t step) {
  const Process& process = jobs_[job].processes[node];
  const auto& nodes = jobs_[job].stored.status().nodes();
  const bool is_there = static_cast<int>(node) < nodes.size();
  const bool is_dropped = is_there && nodes[static_cast<int>(node)].absent();
  if (DropsLost(jobs_[job].stored.record().job()) && is_dropped) return;
  if (process.is_bound && step >= process.from_clock) {
    return Violate(
        "no node begins a clock that it has promised not to", job,
        absl::StrFormat("node %d step %d, promised from %d on", node, step, process.from_clock));
  }
  if (jobs_[job].views.Has(NodeId(node), step)) return;
  Violate("each clock has the pushes of its nodes", job,
          absl::StrFormat("node %d begins step %d, in which it takes no part", node, step));
}

// All-reduces that continue without nodes that have died.

namespace {

bool IsAbsent(const proto::StoredJob& job, int node) {
  return node < job.status().nodes_size() && job.status().nodes(node).absent();
}

bool HasFinished(const proto::StoredJob& job, int node) {
  return node < job.node_finished_size() && job.node_finished(node);
}

}  // namespace

void ViewChecker::OnRingStopped(uint32_t job, const proto::RingStopped& stopped) {
  OnPromised(job, stopped.node(), stopped.number(), stopped.from_clock());
  jobs_[job].processes[stopped.node()].stopped_at = stopped.clock();
}

void ViewChecker::CheckDropped(const Job& job, const proto::StoredJob& stored) {
  if (stored.status().state() != proto::RUNNING) return;
  for (int n = 0; n < stored.status().nodes_size(); ++n) {
    if (!IsAbsent(stored, n) || IsAbsent(job.stored, n)) continue;
    if (stored.view_proposed() > job.stored.view_proposed()) continue;
    return Violate(
        "each loss has a number of its own", stored.record().job_id(),
        absl::StrFormat("node %d is left out with number %d", n, stored.view_proposed()));
  }
}

void ViewChecker::CheckRingDecided(const Job& job, const proto::StoredJob& stored,
                                   const proto::ViewChange& change) {
  const uint32_t id = stored.record().job_id();
  const proto::FormRing& ring = stored.ring();
  if (ring.change().SerializeAsString() != change.SerializeAsString()) {
    return Violate("a ring is saved with its change", id,
                   absl::StrFormat("change %d, ring %d", change.number(), ring.change().number()));
  }
  std::vector<uint32_t> left;
  for (int n = 0; n < stored.status().nodes_size(); ++n) {
    if (!IsAbsent(stored, n) && !HasFinished(stored, n)) left.push_back(static_cast<uint32_t>(n));
  }
  if (!std::equal(left.begin(), left.end(), ring.nodes().begin(), ring.nodes().end())) {
    return Violate("a ring has all nodes that are left", id,
                   absl::StrFormat("ring %d has %s, left are %s", change.number(),
                                   absl::StrJoin(ring.nodes(), ", "), absl::StrJoin(left, ", ")));
  }
  uint64_t least = ring.clock(), most = 0;
  for (const uint32_t node : ring.nodes()) {
    const auto found = job.processes.find(node);
    const Process process = found == job.processes.end() ? Process() : found->second;
    least = std::min(least, process.stopped_at);
    most = std::max(most, process.stopped_at);
    if (process.promised == change.number() && process.from_clock <= change.at_clock()) continue;
    return Violate("all nodes stop before a ring is decided", id,
                   absl::StrFormat("ring %d is known from step %d on: node %d has promised %d from "
                                   "%d on",
                                   change.number(), change.at_clock(), node, process.promised,
                                   process.from_clock));
  }
  const bool fits = ring.clock() == most && ring.some_lack() == (least < most) &&
                    least + 1 >= most && change.at_clock() > ring.clock();
  if (fits) return;
  Violate(
      "a ring goes on where its nodes are", id,
      absl::StrFormat("ring %d from step %d on%s, known from %d on: its nodes have made %d to "
                      "%d",
                      change.number(), ring.clock(), ring.some_lack() ? ", which some lack" : "",
                      change.at_clock(), least, most));
}

void ViewChecker::CheckRingAnnounced(const proto::Register& daemon,
                                     const proto::CoordinatorMessage& message) {
  if (message.has_form_ring()) {
    const proto::FormRing& ring = message.form_ring();
    const proto::StoredJob& stored = jobs_[ring.job_id()].stored;
    if (ring.SerializeAsString() == stored.ring().SerializeAsString()) return;
    return Violate("a ring is saved before it is said", ring.job_id(),
                   absl::StrFormat("ring %d to %s, saved is %d", ring.change().number(),
                                   daemon.name(), stored.ring().change().number()));
  }
  const proto::StopRing& stop = message.stop_ring();
  const proto::StoredJob& stored = jobs_[stop.job_id()].stored;
  if (stored.view_proposed() < stop.number()) {
    Violate("a number is saved before anybody is asked", stop.job_id(),
            absl::StrFormat("%d, saved is %d", stop.number(), stored.view_proposed()));
  }
  if (stop.number() > stored.ring().change().number()) return;
  Violate("numbers of changes only grow", stop.job_id(),
          absl::StrFormat("%d is asked about, ring %d is decided", stop.number(),
                          stored.ring().change().number()));
}

}  // namespace strata::sim
