#include "tests/sim/check/profile.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_format.h"
#include "common/transport/sim/random.h"
#include "tests/sim/check/scenario.h"

namespace strata::sim {

// How lost second copies are replaced, with faults meanwhile.
void DrawNewCopies(transport::SimRandom* random, Scenario* scenario);

// Nodes of every job come and go, in all modes whose nodes keep no weights except those at the
// start of a step.
void MakeElastic(Scenario* scenario);
// The same, with second copies of shards, whose servers die.
void MakeElasticReplicas(Scenario* scenario);
// No worker has room for the node of a dead one, and one worker stands in.
void FillAllWorkers(Scenario* scenario);

// Most jobs all-reduce and continue without dead nodes. Nodes die at any moment, including while
// the others form a ring.
void MakeRingLosses(Scenario* scenario);

namespace {

void LoseAndDouble(Scenario* scenario) {
  scenario->timing.resend_after = absl::Milliseconds(20);
  scenario->faults.drop = 0.3;
  scenario->faults.duplicate = 0.5;
  scenario->faults.reorder = 0.3;
}

void SlowConnections(Scenario* scenario) {
  scenario->timing.hello_timeout = absl::Milliseconds(4);
  scenario->timing.backoff_min = absl::Milliseconds(1);
  scenario->timing.resend_after = absl::Milliseconds(100);
  scenario->faults.slow_connection = 0.4;
  scenario->faults.slow_delay_max = absl::Milliseconds(12);
  scenario->rare[static_cast<size_t>(Rare::kSlowRank)] = 0.05;
}

// Every job of two nodes or more all-reduces.
void MakeRings(Scenario* scenario) {
  static constexpr const char* kAlgorithms[] = {"AUTO", "RING", "HALVING_DOUBLING"};
  for (size_t i = 0; i < scenario->jobs.size(); ++i) {
    JobPlan& job = scenario->jobs[i];
    if (job.nodes < 2) continue;
    job.consistency = "sync {}";
    job.all_reduce = kAlgorithms[(scenario->seed + i) % 3];
  }
}

// Every job makes local steps, is double buffered or corrects gradients for their delay.
void MakeLayers(Scenario* scenario) {
  struct Mode {
    const char* consistency;
    uint32_t local_steps;
    bool double_buffering;
  };
  static constexpr Mode kModes[] = {
      {"lazy { double_buffering: true }", 0, true},
      {"lazy { local_steps: 2 }", 2, false},
      {"lazy { local_steps: 3 outer { momentum: 0.5 } }", 3, false},
      {"lazy { local_steps: 1 outer { lr: 0.5 } }", 1, false},
      {"lazy { local_steps: 2 staleness: 1 }", 2, false},
      {"lazy { local_steps: 2 staleness: 2 apply: ON_ARRIVAL outer { momentum: 0.9 } }", 2, false},
      {"lazy { local_steps: 20 }", 20, false},
      {"async { elastic { every_steps: 2 moving_rate: 0.5 } }", 2, false},
      {"lazy { local_steps: 2 significance { threshold: 0.3 } }", 2, false},
      {"lazy { local_steps: 1 staleness: 1 significance { threshold: 1 } }", 1, false},
      {"async { delay_compensation {} }", 0, false},
      {"async { delay_compensation { adaptive: true } damping: INVERSE_STALENESS }", 0, false},
  };
  for (size_t i = 0; i < scenario->jobs.size(); ++i) {
    JobPlan& job = scenario->jobs[i];
    const Mode& mode = kModes[(scenario->seed + i) % std::size(kModes)];
    job.consistency = mode.consistency;
    job.local_steps = mode.local_steps;
    job.double_buffering = mode.double_buffering;
  }
}

// Every job needs norms: of the mean gradient and the weights, or of each node's gradient. Rings
// among them.
void MakeNorms(Scenario* scenario) {
  static constexpr const char* kInStep[] = {"sync {}", "lazy { staleness: 0 }",
                                            "lazy { double_buffering: true }"};
  static constexpr const char* kOnNodes[] = {
      "lars { coefficient: 0.5 }",
      "sgd { weight_decay: 0.01 } clip_norm: 1",
      "momentum_sgd {} clip_norm: 5",
      "lars { coefficient: 0.5 weight_decay: 0.1 } clip_norm: 2",
  };
  static constexpr const char* kElsewhere[] = {
      "async {}",
      "lazy { staleness: 2 }",
      "lazy { quorum { nodes: 1 grace_ms: 5 } }",
      "lazy { staleness: 1 apply: ON_ARRIVAL }",
      "lazy { local_steps: 2 }",
      "async { elastic { every_steps: 2 moving_rate: 0.5 } }",
      "async { damping: INVERSE_STALENESS }",
  };
  // A restarted node is not told the means of earlier clocks again.
  scenario->rare[static_cast<size_t>(Rare::kNodeRestart)] = 0;
  for (size_t i = 0; i < scenario->jobs.size(); ++i) {
    JobPlan& job = scenario->jobs[i];
    const uint64_t choice = scenario->seed + i;
    if (choice % 2 == 0) {
      const uint64_t mode = choice / 2 % std::size(kInStep);
      const uint64_t optimizer = choice / (2 * std::size(kInStep)) % std::size(kOnNodes);
      const uint64_t exchange = choice / (2 * std::size(kInStep) * std::size(kOnNodes)) % 3;
      job.consistency = kInStep[mode];
      job.double_buffering = mode == 2;
      job.optimizer = kOnNodes[optimizer];
      if (mode == 0 && exchange > 0 && job.nodes > 1) {
        job.all_reduce = exchange == 1 ? "RING" : "HALVING_DOUBLING";
      }
    } else {
      job.consistency = kElsewhere[choice / 2 % std::size(kElsewhere)];
      job.local_steps = job.consistency.find("steps: 2") != std::string::npos ? 2 : 0;
      job.optimizer += choice % 4 == 1 ? " clip_norm: 1" : " clip_norm: 10";
    }
  }
}

// In every job some nodes close a clock, with a grace or without; and in some of them the last node
// is slow.
void MakeQuorums(Scenario* scenario) {
  static constexpr uint32_t kGracesMs[] = {0, 0, 1, 5, 200};
  static constexpr const char* kPulls[] = {"", "", "codec: INT8", "", "codec: TOP_K density: 0.1"};
  for (size_t i = 0; i < scenario->jobs.size(); ++i) {
    JobPlan& job = scenario->jobs[i];
    const uint64_t choice = scenario->seed + i;
    job.local_steps = choice % 4 == 3 ? 2 : 0;
    job.consistency =
        absl::StrFormat("lazy { %squorum { nodes: %d grace_ms: %d } }",
                        job.local_steps > 0 ? "local_steps: 2 " : "", 1 + choice / 5 % job.nodes,
                        kGracesMs[choice % std::size(kGracesMs)]);
    job.pull = kPulls[choice / 3 % std::size(kPulls)];
    if (choice % 3 == 0) job.last_node_step = absl::Milliseconds(5);
  }
}

// One job of four nodes, the last of which is slow.
template <int kNodes>
void GoOnWith(Scenario* scenario) {
  scenario->jobs[0].consistency = absl::StrFormat("lazy { quorum { nodes: %d } }", kNodes);
}
Scenario::Limits Straggler(void (*change)(Scenario*)) {
  JobPlan plan;
  plan.nodes = 4;
  plan.chunks = 13;
  plan.clocks = 12;
  plan.window = 3;
  plan.last_node_step = absl::Milliseconds(100);
  return {.shards_max = 3, .faults = false, .job = plan, .change = change};
}

// The program of every job reports the learning rate of each step, in any mode, with layers,
// quorums, norms and in rings. Frames are lost, so that pushes are repeated.
void SayRates(Scenario* scenario) {
  void (*const kMake[])(Scenario*) = {MakeLayers, MakeQuorums, MakeNorms, MakeRings};
  const uint64_t choice = scenario->seed % (2 * std::size(kMake));
  if (choice < std::size(kMake)) kMake[choice](scenario);
  if (scenario->seed % 3 == 0) scenario->faults.drop = 0.2;
  for (JobPlan& job : scenario->jobs) job.says_rates = true;
}

// Every job encodes pushes, answers or both.
void Encode(Scenario* scenario) {
  static constexpr const char* kPush[] = {
      "",
      "codec: FP16",
      "codec: BF16",
      "codec: INT8",
      "codec: ONE_BIT",
      "codec: TOP_K density: 0.1",
      "codec: DGC density: 0.02 momentum: 0.5 warmup_epochs: 0.03"};
  static constexpr const char* kPull[] = {"codec: FP16",
                                          "codec: BF16",
                                          "codec: INT8",
                                          "codec: ONE_BIT",
                                          "codec: TOP_K density: 0.1",
                                          ""};
  // A restarted node has other weights than those to which the next answer adds.
  if (scenario->seed % 2 == 0) scenario->rare[static_cast<size_t>(Rare::kNodeRestart)] = 0.05;
  for (size_t i = 0; i < scenario->jobs.size(); ++i) {
    JobPlan& job = scenario->jobs[i];
    const uint64_t choice = scenario->seed + i;
    job.push = kPush[choice % std::size(kPush)];
    job.pull = kPull[choice % std::size(kPull)];
    if (job.push.find("DGC") != std::string::npos) job.optimizer = "sgd {}";
  }
}

void MakeEncodedLayers(Scenario* scenario) {
  MakeLayers(scenario);
  Encode(scenario);
  for (JobPlan& job : scenario->jobs) {
    if (job.push.find("DGC") != std::string::npos) job.push = "codec: TOP_K density: 0.2";
    // Weights are exchanged whole, or pushes are sparse already.
    const bool is_elastic = job.consistency.find("elastic") != std::string::npos;
    if (is_elastic) job.pull = "";
    if (is_elastic || job.consistency.find("significance") != std::string::npos) job.push = "";
  }
}

void EncodeLoseAndDouble(Scenario* scenario) {
  Encode(scenario);
  LoseAndDouble(scenario);
}

void MakeEncodedRings(Scenario* scenario) {
  MakeRings(scenario);
  for (size_t i = 0; i < scenario->jobs.size(); ++i) {
    JobPlan& job = scenario->jobs[i];
    if (!job.is_ring()) continue;
    job.all_reduce = "RING";
    job.push = (scenario->seed + i) % 2 == 0 ? "codec: FP16" : "codec: BF16";
  }
}

// Every job's shards are on two servers that have faults while the job trains; in all modes,
// encoded, with layers.
void MakeReplicas(Scenario* scenario) {
  transport::SimRandom random(scenario->seed * 0x2545f4914f6cdd1d + 6);
  void (*const kMake[])(Scenario*) = {MakeLayers, MakeQuorums, Encode, MakeEncodedLayers};
  if (const uint64_t choice = random.Below(8); choice < std::size(kMake)) kMake[choice](scenario);
  while (scenario->shards_of_server.size() < 2 || random.Chance(0.4)) {
    scenario->shards_of_server.push_back(static_cast<uint32_t>(random.Between(1, 2)));
  }
  for (JobPlan& job : scenario->jobs) {
    job.replicas = 1;
    if (random.Chance(0.3)) job.says_rates = true;
    // Long enough for the faults to happen.
    job.last_node_step = absl::Milliseconds(std::exp2(10.5 * random.Fraction()));
  }
  ControlFaults& control = scenario->control;
  uint32_t* const kinds[] = {&control.gone_for_good, &control.back_empty, &control.stops,
                             &control.cut_offs,      &control.apart,      &control.both_lost};
  const auto times = [&] { return static_cast<uint32_t>(random.Between(1, 2)); };
  const uint64_t kind = random.Below(std::size(kinds) + 2);
  if (kind < std::size(kinds)) *kinds[kind] = times();
  // One after the other, or none at all.
  if (kind == std::size(kinds)) {
    for (uint32_t* const some : kinds) *some = random.Chance(0.5) ? 1 : 0;
  }
  DrawNewCopies(&random, scenario);
}

// The same: servers die and come back empty, mostly the one with the first copy when the new second
// one is complete.
void MakeNewCopies(Scenario* scenario) {
  MakeReplicas(scenario);
  transport::SimRandom random(scenario->seed * 0x2545f4914f6cdd1d + 7);
  while (scenario->shards_of_server.size() < 3) scenario->shards_of_server.push_back(1);
  for (JobPlan& job : scenario->jobs) {
    job.last_node_step = random.Between(absl::Milliseconds(50), absl::Milliseconds(500));
  }
  ControlFaults& control = scenario->control;
  control = {.backup_pause = std::min(control.backup_pause, absl::Milliseconds(100)),
             .passed_over_for = std::min(control.passed_over_for, absl::Seconds(2)),
             .fill_ahead_bytes = control.fill_ahead_bytes};
  control.back_empty = 1;
  scenario->rare[static_cast<size_t>(Rare::kDisturbedFill)] = 0.15;
  scenario->rare[static_cast<size_t>(Rare::kDisturbedNewCopy)] = 0.8;
  scenario->rare[static_cast<size_t>(Rare::kNoRoomForCopy)] = 0;
}

// Two nodes whose ranks publish at their own pace.
Scenario::Limits TwoPaces(worker::PushWindow::Reserve reserve) {
  JobPlan plan;
  plan.nodes = 2;
  plan.chunks = 64;
  plan.clocks = 2;
  plan.window = 4;
  return {.shards_max = 1, .faults = false, .job = plan, .reserve = reserve};
}

// One job on three workers, of which one dies: its node continues on a worker that stands in.
Scenario::Limits StandIn() {
  JobPlan plan;
  plan.nodes = plan.nodes_max = 3;
  plan.nodes_min = 1;
  plan.chunks = 7;
  plan.clocks = 30;
  plan.replaces = true;
  plan.step_time = absl::Milliseconds(500);
  return {.shards_max = 3, .faults = false, .job = plan, .control = 0, .change = FillAllWorkers};
}

const Scenario::Limits kElastic = {
    .chunks_max = 9, .control = 0.15, .sealed = 0.1, .change = MakeElastic};
const Scenario::Limits kElasticReplicas = {
    .chunks_max = 5, .jobs_max = 1, .control = 0.1, .sealed = 0, .change = MakeElasticReplicas};

}  // namespace

const std::vector<Profile>& Profiles() {
  using Reserve = worker::PushWindow::Reserve;
  static const std::vector<Profile> profiles = {
      {"all", "everything that can be drawn", {}},
      {"small", "the same with few nodes and chunks", {.nodes_max = 3, .chunks_max = 9}},
      {"control",
       "jobs that wait for slots while coordinator and daemons break, die and come back",
       {.nodes_max = 3, .chunks_max = 9, .control = 1, .sealed = 0}},
      {"lossy",
       "three in ten frames are lost, half come twice",
       {.chunks_max = 30, .faults = false, .change = LoseAndDouble}},
      {"slow-connections",
       "connections slower than the patience for HELLO",
       {.chunks_max = 9, .jobs_max = 1, .faults = false, .change = SlowConnections}},
      {"ring", "jobs whose nodes all-reduce, beside some with servers", {.change = MakeRings}},
      {"codecs", "jobs whose pushes and answers are encoded", {.change = Encode}},
      {"layers",
       "jobs with local steps, double buffering or delay compensation",
       {.change = MakeLayers}},
      {"norms", "jobs with LARS or clipping, in which no node starts over", {.change = MakeNorms}},
      {"encoded-layers", "the same, encoded", {.chunks_max = 30, .change = MakeEncodedLayers}},
      {"lossy-codecs",
       "the same where three in ten frames are lost, half come twice",
       {.chunks_max = 30, .faults = false, .change = EncodeLoseAndDouble}},
      {"ring-codecs", "rings that encode", {.change = MakeEncodedRings}},
      {"quorum",
       "jobs in which some nodes close a clock, and slow ones come late",
       {.change = MakeQuorums}},
      {"rates", "jobs whose programs say the rate of each step", {.change = SayRates}},
      {"first-weights", "jobs that begin with rank 0's weights", {.takes_first_weights = 0.7}},
      {"ring-first-weights",
       "the same, most of them rings",
       {.takes_first_weights = 0.7, .change = MakeRings}},
      {"encoded-first-weights",
       "the same, encoded",
       {.takes_first_weights = 0.7, .change = Encode}},
      {"sealed",
       "small jobs whose frames are sealed, while somebody on the way does what he likes",
       {.nodes_max = 3, .chunks_max = 9, .sealed = 1}},
      {"replicas",
       "jobs with second copies of their shards, while servers die, stand still and lose each "
       "other",
       {.nodes_max = 3, .chunks_max = 9, .control = 0.15, .change = MakeReplicas}},
      {"new-copies",
       "the same, whose servers come back empty, and whose new second copies take over",
       {.nodes_max = 3, .chunks_max = 9, .jobs_max = 1, .control = 0, .change = MakeNewCopies}},
      {"elastic", "jobs whose nodes come and go, whatever befalls who has a part in it", kElastic},
      {"elastic-replicas", "the same, with second copies of the shards", kElasticReplicas},
      {"stand-in", "a node dies where all workers are full and one stands in", StandIn()},
      {"ring-losses",
       "jobs whose nodes all-reduce and go on without those that die, whatever befalls the others",
       {.chunks_max = 9, .control = 0.1, .takes_first_weights = 0.3, .change = MakeRingLosses}},
      {"slow-node", "three nodes of four close a clock, the fourth is slow",
       Straggler(GoOnWith<3>)},
      {"slow-node-awaited", "the same, but all four do", Straggler(GoOnWith<4>)},
      {"two-paces", "two nodes that fill their windows differently", TwoPaces(Reserve::kLowest)},
      {"no-reserved-slot", "the same, which locks up so", TwoPaces(Reserve::kNothing)},
  };
  return profiles;
}

const Profile* FindProfile(const std::string& name) {
  for (const Profile& profile : Profiles()) {
    if (name == profile.name) return &profile;
  }
  return nullptr;
}

namespace {

// Draws faults of processes that take part in a change of a job's nodes.
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

// Jobs not placed yet would wait for servers, and fail because of that.
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

// In some runs dead nodes can continue only on a worker that stands in.
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
  // If frames are lost or reordered without a break, more than in a real network, filling a copy
  // takes longer than its deadline.
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
    // In the smallest chunk each push has its own element.
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

namespace {

constexpr const char* kOptimizers[] = {
    "sgd {}",
    "momentum_sgd {}",
    "adam {}",
    "nesterov {}",
    "adamw {}",
    "adagrad {}",
    "ftrl { l1: 0.001 }",
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
