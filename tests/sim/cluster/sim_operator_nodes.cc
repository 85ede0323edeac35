// The part of SimOperator that sees to workers of jobs whose nodes come and go.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/sim_server.h"
#include "tests/sim/cluster/sim_worker.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

constexpr absl::Duration kTryAgain = absl::Milliseconds(300);
// How long a worker stays out of service, and how long one that is about to end has time.
constexpr absl::Duration kDrainedMax = absl::Seconds(20);
constexpr absl::Duration kNoticeMax = absl::Seconds(10);
// As far from the step of a change as the next of its steps may be.
constexpr absl::Duration kSoonMax = absl::Milliseconds(30);
constexpr absl::Duration kRestartMax = absl::Seconds(20);
constexpr absl::Duration kPauseMax = absl::Seconds(12);

}  // namespace

SimWorker& SimOperator::SomeWorker() {
  return *world_->workers()[world_->random().Below(world_->workers().size())];
}

SimWorker* SimOperator::FindWorker(const std::string& name) {
  for (const auto& worker : world_->workers()) {
    if (worker->name() == name) return worker.get();
  }
  return nullptr;
}

void SimOperator::DisturbWorkers() {
  const NodeFaults& faults = world_->scenario().nodes;
  Repeat(faults.drains, [this] { Drain(); });
  Repeat(faults.leaves, [this] {
    SomeWorker().Leave(world_->random().Between(absl::ZeroDuration(), kNoticeMax));
  });
  // In an all-reduce that drops nodes that die, mostly once it trains.
  const bool drops_lost = world_->scenario().jobs[0].drops_lost;
  if (!drops_lost || world_->random().Chance(0.1)) DisturbNodes();
}

void SimOperator::DisturbNodes() {
  Repeat(world_->scenario().nodes.deaths, [this] { SomeWorker().KillNodes(); });
  Repeat(world_->scenario().nodes.freezes, [this] { SomeWorker().FreezeNodes(); });
}

void SimOperator::Drain() {
  const std::string worker = SomeWorker().name();
  const absl::Status drained = world_->coordinator().Drain(worker, /*undo=*/false);
  if (absl::IsUnavailable(drained)) {
    world_->network().After(kTryAgain, [this] { Drain(); });
    return;
  }
  if (!drained.ok()) return;  // it has not joined yet
  world_->Count(Rare::kDrain);
  world_->network().After(world_->random().Between(absl::ZeroDuration(), kDrainedMax),
                          [this, worker] { Undrain(worker); });
}

void SimOperator::Undrain(const std::string& worker) {
  const absl::Status undone = world_->coordinator().Drain(worker, /*undo=*/true);
  if (absl::IsUnavailable(undone)) {
    world_->network().After(kTryAgain, [this, worker] { Undrain(worker); });
  } else if (undone.ok()) {
    world_->Count(Rare::kUndrain);
  }
}

void SimOperator::OnChange(const proto::StoredJob& job) {
  if (!world_->Takes(Rare::kDisturbedChange)) return;
  const absl::Duration later =
      world_->random().Chance(0.3)
          ? absl::ZeroDuration()
          : absl::Microseconds(std::exp2(std::log2(absl::ToDoubleMicroseconds(kSoonMax)) *
                                         world_->random().Fraction()));
  world_->network().After(later, [this, job] { DisturbChange(job); });
}

void SimOperator::DisturbChange(const proto::StoredJob& job) {
  const auto& nodes = job.status().nodes();
  if (nodes.empty()) return;
  SimWorker* const worker =
      FindWorker(nodes[static_cast<int>(world_->random().Below(nodes.size()))].daemon());
  const absl::Duration pause = world_->random().Between(absl::ZeroDuration(), kPauseMax);
  const bool replaces = job.record().job().has_replace();
  switch (world_->random().Below(replaces ? 9 : 6)) {
    case 0:
      return world_->coordinator().Restart(
          world_->random().Between(absl::ZeroDuration(), kRestartMax));
    case 1:
      return world_->coordinator().StandStill(pause);
    case 2:
      return Drain();
    case 3:
      if (worker != nullptr) world_->coordinator().BreakLine(worker->name());
      return;
    case 4: {
      SimServer& server = *world_->servers()[world_->random().Below(world_->servers().size())];
      if (job.record().job().replicas() > 0) return server.Lose();
      return world_->coordinator().BreakLine(server.name());
    }
    case 5:  // a node that is to join
      for (const auto& node : nodes) {
        SimWorker* const joiner = node.joins() ? FindWorker(node.daemon()) : nullptr;
        if (joiner != nullptr) return joiner->Lose();
      }
      return;
    case 6:
      if (worker != nullptr) worker->Lose();
      return;
    default:
      if (worker != nullptr) worker->KillNodes();
  }
}

}  // namespace strata::sim
