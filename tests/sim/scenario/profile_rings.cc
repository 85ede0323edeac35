#include "tests/sim/scenario/profile_rings.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/transport/sim/random.h"

namespace strata::sim {
namespace {

constexpr const char* kOptimizers[] = {
    "sgd {}",
    "momentum_sgd {}",
    "adam {}",
    "nesterov {}",
    "adamw {}",
    "lars { coefficient: 0.5 }",
    "sgd { weight_decay: 0.01 } clip_norm: 1",
    "momentum_sgd {} clip_norm: 5",
};

void MakeDropping(transport::SimRandom* random, JobPlan* job) {
  static constexpr const char* kAlgorithms[] = {"AUTO", "RING", "HALVING_DOUBLING"};
  job->consistency = "sync {}";
  job->all_reduce = kAlgorithms[random->Below(std::size(kAlgorithms))];
  job->optimizer = kOptimizers[random->Below(std::size(kOptimizers))];
  job->drops_lost = true;
  job->nodes = static_cast<uint32_t>(random->Between(2, 5));
  job->nodes_min = random->Chance(0.9) ? 1 : static_cast<uint32_t>(random->Between(1, job->nodes));
  job->ranks_per_node = static_cast<uint32_t>(random->Between(1, 2));
  job->clocks = random->Between(2, 20);
  job->step_time = absl::Milliseconds(std::exp2(3 + 8 * random->Fraction()));
  if (!job->has_norms()) job->says_rates = random->Chance(0.2);
}

void DrawLosses(transport::SimRandom* random, Scenario* scenario) {
  const auto times = [&](double p) {
    return random->Chance(p) ? static_cast<uint32_t>(random->Between(1, 3)) : 0;
  };
  scenario->nodes.deaths = times(0.5);
  scenario->nodes.freezes = times(0.3);
  if (random->Chance(0.15)) scenario->control.lost_workers += times(0.7);
  if (random->Chance(0.2)) scenario->control.restarts += times(0.7);
  const auto maybe = [&](Rare rare, double chance, double p) {
    if (random->Chance(chance)) scenario->rare[static_cast<size_t>(rare)] = p * random->Fraction();
  };
  maybe(Rare::kDisturbedRing, 0.7, 0.25);
  maybe(Rare::kDisturbedEnd, 0.3, 1);
  maybe(Rare::kRestartAtChange, 0.4, 0.5);
  maybe(Rare::kWordTwice, 0.5, 0.7);
  maybe(Rare::kSessionBreak, 0.2, 0.1);
  maybe(Rare::kSlowStart, 0.1, 1);
}

}  // namespace

void MakeRingLosses(Scenario* scenario) {
  transport::SimRandom random(scenario->seed * 0x2545f4914f6cdd1d + 10);
  for (size_t i = 0; i < scenario->jobs.size(); ++i) {
    if (i == 0 || random.Chance(0.6)) MakeDropping(&random, &scenario->jobs[i]);
  }
  if (scenario->slots > 0) {
    for (const JobPlan& job : scenario->jobs) {
      scenario->slots = std::max(scenario->slots, job.ranks_per_node);
    }
  }
  DrawLosses(&random, scenario);
}

}  // namespace strata::sim
