// The part of ViewChecker that sees to all-reduces that go on without nodes that have died.
#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/sim/check/view_checker.h"

namespace strata::sim {
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

void ViewChecker::CheckRingSaid(const proto::Register& daemon,
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
