#include "tests/sim/scenario/profile_elastic.h"

#include <algorithm>
#include <cmath>

namespace strata::sim {
namespace {

// What happens to those who have a part in changes of a job's nodes.
void DrawNodeFaults(transport::SimRandom* random, Scenario* scenario) {
  const auto milliseconds = [&](double most) {
    return absl::Milliseconds(std::exp2(std::log2(most) * random->Fraction()));
  };
  const auto times = [&](double p) {
    return random->Chance(p) ? static_cast<uint32_t>(random->Between(1, 3)) : 0;
  };
  NodeFaults& nodes = scenario->nodes;
  nodes = {.drains = times(0.5), .leaves = times(0.3), .deaths = times(0.4)};
  nodes.spare_workers = static_cast<uint32_t>(random->Between(1, 4));
  nodes.late_workers = static_cast<uint32_t>(random->Between(0, nodes.spare_workers));
  if (random->Chance(0.7)) nodes.change_pause = milliseconds(5000);
  if (random->Chance(0.7)) nodes.joiner_pause = milliseconds(20000);
  ControlFaults& control = scenario->control;
  if (random->Chance(0.3)) control.lost_workers += times(0.7);
  const auto maybe = [&](Rare rare, double chance, double p) {
    if (random->Chance(chance)) scenario->rare[static_cast<size_t>(rare)] = p * random->Fraction();
  };
  maybe(Rare::kDisturbedChange, 0.5, 0.3);
  maybe(Rare::kRestartAtChange, 0.3, 0.3);
  maybe(Rare::kSessionBreak, 0.2, 0.1);
  maybe(Rare::kSlowStart, 0.2, 1);
}

// Jobs that are still to be placed would wait for servers, and end by that.
void DrawServerDrains(Scenario* scenario) {
  transport::SimRandom random(scenario->seed * 0x2545f4914f6cdd1d + 20);
  if (scenario->jobs.size() > 1 || !random.Chance(0.4)) return;
  scenario->nodes.server_drains = static_cast<uint32_t>(random.Between(1, 4));
  while (scenario->shards_of_server.size() < 3) {
    scenario->shards_of_server.push_back(static_cast<uint32_t>(random.Between(1, 2)));
  }
  double& disturbed = scenario->rare[static_cast<size_t>(Rare::kDisturbedMove)];
  if (random.Chance(0.5)) disturbed = 0.7 * random.Fraction();
}

// In some runs nodes that die have nowhere else to go on than where a worker stands in.
void DrawStandIns(Scenario* scenario) {
  transport::SimRandom random(scenario->seed * 0x2545f4914f6cdd1d + 13);
  if (!random.Chance(0.3)) return;
  for (JobPlan& job : scenario->jobs) job.replaces = true;
  NodeFaults& nodes = scenario->nodes;
  nodes.stand_ins = static_cast<uint32_t>(random.Between(1, 2));
  if (random.Chance(0.7)) nodes.spare_workers = nodes.late_workers = 0;
  scenario->control.lost_workers += static_cast<uint32_t>(random.Between(2, 4));
}

}  // namespace

void DrawNewCopies(transport::SimRandom* random, Scenario* scenario) {
  ControlFaults& control = scenario->control;
  const auto milliseconds = [&](double most) {
    return absl::Milliseconds(std::exp2(std::log2(most) * random->Fraction()));
  };
  if (random->Chance(0.8)) control.backup_pause = milliseconds(1000);
  if (random->Chance(0.5)) control.passed_over_for = milliseconds(30000);
  if (random->Chance(0.7)) {
    control.fill_ahead_bytes = std::max<uint64_t>(1, random->Below(4000));
  }
  for (JobPlan& job : scenario->jobs) job.waits_unprotected = random->Chance(0.3);
  // Where frames are lost or reordered without a break, beyond what a network does, a copy takes
  // longer than it is waited for.
  if (scenario->waits_unprotected()) {
    scenario->faults.drop *= 0.1;
    scenario->faults.reorder *= 0.1;
  }
  const auto maybe = [&](Rare rare, double p) {
    if (random->Chance(0.3)) scenario->rare[static_cast<size_t>(rare)] = p;
  };
  maybe(Rare::kRestartAtSave, 0.5);
  maybe(Rare::kNoRoomForCopy, 0.3);
  maybe(Rare::kLateRemoval, 0.7);
  maybe(Rare::kLateReport, 0.5);
  maybe(Rare::kDisturbedFill, 0.5);
  maybe(Rare::kDisturbedNewCopy, 0.7);
}

void MakeElastic(Scenario* scenario) {
  transport::SimRandom random(scenario->seed * 0x2545f4914f6cdd1d + 8);
  const uint32_t some = static_cast<uint32_t>(scenario->jobs.size());
  for (uint32_t i = 0; i < some; ++i) {
    JobPlan& job = scenario->jobs[i];
    job.nodes_max = static_cast<uint32_t>(random.Between(2, 4));
    job.nodes = static_cast<uint32_t>(random.Between(1, job.nodes_max));
    job.nodes_min = static_cast<uint32_t>(random.Between(1, job.nodes));
    job.ranks_per_node = static_cast<uint32_t>(random.Between(1, 2));
    // In the smallest chunk each push has an element of its own.
    job.clocks = random.Between(10, 90 / job.all_ranks());
    job.replaces = random.Chance(0.6);
    job.step_time = absl::Milliseconds(std::exp2(10 * random.Fraction()));
    if (random.Chance(0.6)) job.consistency = "sync {}";
  }
  if (scenario->slots > 0) {
    for (const JobPlan& job : scenario->jobs) {
      scenario->slots = std::max(scenario->slots, job.ranks_per_node);
    }
  }
  scenario->other_bits = false;
  DrawNodeFaults(&random, scenario);
  DrawStandIns(scenario);
}

void FillAllWorkers(Scenario* scenario) {
  scenario->nodes = {.stand_ins = 1};
  scenario->control.lost_workers = 1;
}

void MakeElasticReplicas(Scenario* scenario) {
  MakeElastic(scenario);
  transport::SimRandom random(scenario->seed * 0x2545f4914f6cdd1d + 9);
  while (scenario->shards_of_server.size() < 2 || random.Chance(0.4)) {
    scenario->shards_of_server.push_back(static_cast<uint32_t>(random.Between(1, 2)));
  }
  for (JobPlan& job : scenario->jobs) {
    job.replicas = 1;
    job.step_time = absl::Milliseconds(std::exp2(4 + 6 * random.Fraction()));
  }
  ControlFaults& control = scenario->control;
  if (random.Chance(0.3)) control.back_empty = 1;
  if (random.Chance(0.2)) control.gone_for_good = 1;
  if (random.Chance(0.2)) control.stops = 1;
  if (random.Chance(0.2)) control.cut_offs = 1;
  DrawNewCopies(&random, scenario);
  DrawServerDrains(scenario);
}

}  // namespace strata::sim
