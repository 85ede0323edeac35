// The part of SimOperator that sees to all-reduces that drop nodes that die.
#include <cmath>
#include <utility>

#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/sim_worker.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

// As far from one step of a change as the next of its steps may be.
constexpr absl::Duration kSoonMax = absl::Milliseconds(30);
// The share of steps after which something may happen.
constexpr double kOfSteps = 0.1;
constexpr absl::Duration kRestartMax = absl::Seconds(20);
constexpr absl::Duration kPauseMax = absl::Seconds(12);

}  // namespace

void SimOperator::OnRing(uint32_t job) {
  if (!world_->plan(job).drops_lost || !world_->Takes(Rare::kDisturbedRing)) return;
  const absl::Duration later =
      world_->random().Chance(0.3)
          ? absl::ZeroDuration()
          : absl::Microseconds(std::exp2(std::log2(absl::ToDoubleMicroseconds(kSoonMax)) *
                                         world_->random().Fraction()));
  world_->network().After(later, [this, job] { DisturbRing(job); });
}

void SimOperator::OnStepMade(uint32_t job, bool is_last) {
  if (!world_->plan(job).drops_lost) return;
  if (!std::exchange(disturbs_nodes_, true)) DisturbNodes();
  if (is_last || world_->random().Chance(kOfSteps)) OnRing(job);
}

// Others end within the same moment.
void SimOperator::OnNodeEnd(uint32_t job) {
  if (!world_->plan(job).drops_lost || !end_.insert(job).second) return;
  if (!world_->Takes(Rare::kDisturbedEnd)) return;
  world_->network().After(absl::ZeroDuration(), [this, job] {
    for (const auto& worker : world_->workers()) {
      if (worker->Plays(job)) return worker->KillNodes();
    }
  });
}

void SimOperator::DisturbRing(uint32_t job) {
  std::vector<SimWorker*> workers;
  for (const auto& worker : world_->workers()) {
    if (worker->Plays(job)) workers.push_back(worker.get());
  }
  if (workers.empty()) return;
  SimWorker* const worker = workers[world_->random().Below(workers.size())];
  switch (world_->random().Below(10)) {
    case 0:
      return world_->coordinator().Restart(
          world_->random().Between(absl::ZeroDuration(), kRestartMax));
    case 1:
      return world_->coordinator().StandStill(
          world_->random().Between(absl::ZeroDuration(), kPauseMax));
    case 2:
      return world_->coordinator().BreakLine(worker->name());
    case 3:
      return worker->Lose();
    case 4:
    case 5:
      return worker->FreezeNodes();
    default:
      worker->KillNodes();
  }
}

}  // namespace strata::sim
