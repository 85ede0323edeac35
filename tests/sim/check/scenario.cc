#include "tests/sim/check/scenario.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/text_format.h"

namespace strata::sim {

namespace {

using transport::SimRandom;

// Few shapes, so that many seeds run the same job and can be compared.
struct Size {
  uint32_t chunks, last_chunk_elements;
  uint64_t clocks;
  const char* optimizer;
};
constexpr Size kSizes[] = {
    {1, 100, 8, "adam {}"},  {2, 256, 6, "momentum_sgd {}"}, {5, 130, 5, "sgd {}"},
    {9, 256, 4, "sgd {}"},   {20, 90, 3, "nesterov {}"},     {30, 200, 3, "sgd {}"},
    {13, 70, 5, "adamw {}"}, {60, 256, 5, "sgd {}"},
};

constexpr size_t kDataRares = static_cast<size_t>(Rare::kNodeRestart) + 1;

std::string DrawConsistency(SimRandom* random) {
  const uint64_t staleness = random->Below(4);
  switch (random->Below(10)) {
    case 0:
    case 1:
    case 2:
      return absl::StrFormat("lazy { staleness: %d }", staleness);
    case 3:
    case 4:
      return absl::StrFormat("lazy { staleness: %d apply: ON_ARRIVAL }", staleness);
    case 5:
      return "async {}";
    case 6:
      return "async { damping: INVERSE_STALENESS }";
    default:
      return "sync {}";
  }
}

JobPlan DrawJob(SimRandom* random, const Scenario::Limits& limits) {
  JobPlan plan;
  plan.ranks_per_node = static_cast<uint32_t>(random->Between(1, 2));
  plan.nodes = static_cast<uint32_t>(random->Between(1, limits.nodes_max));
  if (random->Chance(0.05) && limits.nodes_max >= 4) plan.nodes = 6;
  const Size* size = &kSizes[0];
  do {
    size = &kSizes[random->Below(std::size(kSizes))];
  } while (size->chunks > limits.chunks_max);
  plan.chunks = size->chunks;
  plan.last_chunk_elements = size->last_chunk_elements;
  plan.clocks = std::min(size->clocks, limits.clocks_max);
  plan.optimizer = size->optimizer;
  plan.window = static_cast<uint32_t>(random->Between(2, 8));
  plan.consistency = DrawConsistency(random);
  return plan;
}

void DrawWire(SimRandom* random, Scenario* scenario) {
  transport::SimFaults& faults = scenario->faults;
  if (random->Chance(0.4))
    faults.delay_max = random->Between(absl::Milliseconds(1), absl::Milliseconds(300));
  if (random->Chance(0.35)) faults.drop = 0.3 * random->Fraction();
  if (random->Chance(0.35)) faults.duplicate = 0.5 * random->Fraction();
  if (random->Chance(0.3)) faults.reorder = 0.5 * random->Fraction();
  if (random->Chance(0.25)) faults.break_both = 0.01 * random->Fraction();
  if (random->Chance(0.25)) faults.break_one = 0.01 * random->Fraction();
  if (random->Chance(0.15))
    scenario->partition_every = random->Between(absl::Milliseconds(20), absl::Seconds(5));
  if (random->Chance(0.2)) faults.refuse = 0.1 * random->Fraction();
  scenario->encode = random->Chance(0.2);
  if (scenario->encode && random->Chance(scenario->jobs.size() > 1 ? 0.6 : 0.2))
    faults.corrupt = 0.002 * random->Fraction();
}

void DrawRare(SimRandom* random, Scenario* scenario) {
  for (size_t i = 0; i < kDataRares; ++i) {
    if (random->Chance(0.15)) scenario->rare[i] = 0.002 + 0.03 * random->Fraction();
  }
  auto& rare = scenario->rare;
  rare[static_cast<size_t>(Rare::kQueueFull)] = scenario->faults.refuse;
  // Decided once per run, or per rank and step.
  auto scale = [&](Rare point, double by) { rare[static_cast<size_t>(point)] *= by; };
  scale(Rare::kInstallTwice, 30);
  scale(Rare::kPublishOrder, 30);
  scale(Rare::kHelloTwice, 30);
  scale(Rare::kSlowRank, 0.3);
  scale(Rare::kStoppedNode, 0.1);
  scale(Rare::kStoppedShard, 0.1);
  scale(Rare::kReconnect, 0.3);
  scale(Rare::kNodeRestart, 0.2);
  const absl::Duration round_trip = 2 * scenario->faults.delay_max;
  scenario->timing.resend_after =
      std::max(2 * round_trip, random->Between(absl::Milliseconds(5), absl::Seconds(1)));
  scenario->timing.hello_timeout =
      std::max(round_trip, absl::Milliseconds(10) * (1 << random->Below(10)));
  scenario->timing.backoff_min = absl::Milliseconds(1 << random->Below(7));
  double& early = rare[static_cast<size_t>(Rare::kEarlyResend)];
  if (early > 0 && random->Chance(0.3)) {
    early = 1;
    scenario->timing.resend_after = round_trip / 4;
  } else {
    early = 0;  // each makes a run of many repetitions
  }
  scenario->faults.slow_delay_max = 3 * scenario->timing.hello_timeout;
  // Otherwise a run would consist of repetitions.
  scenario->outage_max = std::min(absl::Seconds(3), 50 * scenario->timing.resend_after);
  scenario->faults.notice_max = 2 * scenario->outage_max;
}

// More jobs than slots, with any faults of the daemons that run them. Jobs are small, so that they
// end in time for the next.
void DrawControl(SimRandom* random, const Scenario::Limits& limits, Scenario* scenario) {
  Scenario::Limits small = limits;
  small.chunks_max = std::min(limits.chunks_max, 9u);
  while (scenario->jobs.size() < limits.jobs_max * 2 && random->Chance(0.6)) {
    scenario->jobs.push_back(DrawJob(random, small));
    scenario->jobs.back().data = static_cast<uint32_t>(scenario->jobs.size());
  }
  if (random->Chance(0.7)) {
    for (const JobPlan& job : scenario->jobs) {
      scenario->slots = std::max(scenario->slots, job.ranks_per_node);
    }
  }
  auto maybe = [&](Rare rare, double p) {
    if (random->Chance(0.6)) scenario->rare[static_cast<size_t>(rare)] = p * random->Fraction();
  };
  maybe(Rare::kSessionBreak, 0.3);
  maybe(Rare::kSlowStart, 1);
  maybe(Rare::kStalledLine, 0.5);
  maybe(Rare::kOldRegister, 1);
  maybe(Rare::kNoAnswer, 0.5);
  maybe(Rare::kUnreachable, 0.5);
  maybe(Rare::kCancel, 0.5);
  auto times = [&](double p) {
    return random->Chance(p) ? static_cast<uint32_t>(random->Between(1, 3)) : 0;
  };
  ControlFaults& control = scenario->control;
  control.restarts = times(0.4);
  control.pauses = times(0.3);
  control.lost_workers = times(0.2);
  control.lost_servers = times(0.2);
  control.silences = times(0.2);
}

}  // namespace

float SaidRate(uint64_t step) {
  static constexpr float kRates[] = {0.1f, 0.025f, 0.3f, 0.07f, 0.01f};
  return kRates[step % std::size(kRates)];
}

std::string JobPlan::Shape() const {
  // A ring's order of addition depends on its nodes; AUTO's depends on measurements.
  std::string how = is_ring() ? absl::StrFormat("%s of %d, ", all_reduce, nodes) : "";
  // Each node has its own weights, or they lag.
  if (has_layer()) absl::StrAppend(&how, consistency, " of ", nodes, ", ");
  // Each node rounds its own values.
  if (is_encoded()) {
    absl::StrAppend(&how, "push { ", push, " } pull { ", pull, " } of ", nodes, ", ");
  }
  if (says_rates) how += "said rates, ";
  if (is_elastic()) absl::StrAppendFormat(&how, "%d to %d nodes, ", nodes_min, nodes_max);
  if (drops_lost) absl::StrAppendFormat(&how, "goes on with %d, ", nodes_min);
  return absl::StrFormat("%s%d ranks, %d chunks, %d elements, %d clocks, %s data %d", how, ranks(),
                         chunks, elements(), clocks, optimizer, data);
}

proto::Job JobPlan::ToJob() const {
  proto::Job job;
  const char* const work = has_norms()
                               ? "model { zoo: 'mlp' } data { synthetic {} batch_per_rank: 1 }"
                               : "program { path: 'p' }";
  google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("name: 'job' epochs: 1 chunk_elements: 256 ", work, " consistency { ",
                   consistency, " } optimizer { ",
                   names_optimizer() ? "from_program {}" : optimizer, " } push { ", push,
                   " } pull { ", pull, " }"),
      &job);
  if (!says_rates) job.mutable_schedule()->set_base_lr(has_ledger() ? 1 : 0.1);
  job.set_ranks(ranks());
  job.set_ranks_per_node(ranks_per_node);
  job.set_max_steps(clocks);
  job.set_window(window);
  job.set_connections(connections);
  job.set_replicas(replicas);
  if (waits_unprotected) job.set_while_unprotected(proto::Job::WAIT);
  if (is_elastic()) {
    job.set_ranks_min(nodes_min * ranks_per_node);
    job.set_ranks_max(nodes_max * ranks_per_node);
  }
  if (drops_lost) {
    job.set_on_loss(proto::Job::DROP);
    job.set_ranks_min(nodes_min * ranks_per_node);
  }
  if (replaces) {
    // As often, and with as much patience, as any fault here.
    job.mutable_replace()->set_per_hour(1000);
    job.mutable_replace()->set_patience_s(600);
  }
  if (is_ring()) {
    job.set_exchange(proto::Job::RING);
    proto::AllReduce::Algorithm algorithm = proto::AllReduce::AUTO;
    proto::AllReduce::Algorithm_Parse(all_reduce, &algorithm);
    job.mutable_all_reduce()->set_algorithm(algorithm);
  }
  return job;
}

namespace {

Scenario DrawFreely(uint64_t seed, const Scenario::Limits& limits) {
  SimRandom random(seed * 0x2545f4914f6cdd1d + 1);
  Scenario scenario;
  scenario.seed = seed;
  scenario.reserve = limits.reserve;
  scenario.timing.give_up_after = absl::Hours(100);
  if (limits.job) {
    scenario.jobs.push_back(*limits.job);
  } else {
    const uint32_t jobs = limits.jobs_max > 1 && random.Chance(0.3) ? 2 : 1;
    for (uint32_t i = 0; i < jobs; ++i) {
      scenario.jobs.push_back(DrawJob(&random, limits));
      scenario.jobs.back().data = 1 + i;
    }
  }
  const auto shards = static_cast<uint32_t>(random.Between(1, limits.shards_max));
  for (uint32_t left = shards; left > 0;) {
    scenario.shards_of_server.push_back(static_cast<uint32_t>(random.Between(1, left)));
    left -= scenario.shards_of_server.back();
  }
  if (!limits.faults || random.Chance(0.1)) return scenario;
  DrawWire(&random, &scenario);
  DrawRare(&random, &scenario);
  scenario.other_bits = random.Chance(0.5);
  SimRandom connections(seed * 0x2545f4914f6cdd1d + 3);
  for (JobPlan& job : scenario.jobs) {
    if (!limits.job && connections.Chance(0.3)) {
      job.connections = static_cast<uint32_t>(connections.Between(2, 4));
    }
  }
  SimRandom control(seed * 0x2545f4914f6cdd1d + 2);
  if (!limits.job && control.Chance(limits.control)) DrawControl(&control, limits, &scenario);
  return scenario;
}

// An attacker modifies, replays, delays and reorders frames at will.
void DrawSealing(SimRandom* random, const Scenario::Limits& limits, Scenario* scenario) {
  if (limits.job || !random->Chance(limits.sealed)) return;
  scenario->protection = random->Chance(0.3) ? proto::Job::SIGN : proto::Job::ENCRYPT;
  scenario->encode = true;
  transport::SimFaults& faults = scenario->faults;
  for (double* fault : {&faults.drop, &faults.duplicate, &faults.reorder}) *fault *= 0.02;
  faults.corrupt = limits.faults && random->Chance(0.7) ? 0.004 * random->Fraction() : 0;
  double& repeated = scenario->rare[static_cast<size_t>(Rare::kRepeatedConnection)];
  if (limits.faults && random->Chance(0.7)) repeated = 0.02 * random->Fraction();
}

}  // namespace

Scenario Scenario::Draw(uint64_t seed, const Limits& limits) {
  Scenario scenario = DrawFreely(seed, limits);
  if (limits.change != nullptr) limits.change(&scenario);
  SimRandom firsts(seed * 0x2545f4914f6cdd1d + 4);
  for (JobPlan& job : scenario.jobs) {
    job.takes_first_weights = !job.has_layer() && firsts.Chance(limits.takes_first_weights);
  }
  SimRandom seals(seed * 0x2545f4914f6cdd1d + 5);
  DrawSealing(&seals, limits, &scenario);
  return scenario;
}

bool Scenario::waits_unprotected() const {
  return std::any_of(jobs.begin(), jobs.end(),
                     [](const JobPlan& job) { return job.waits_unprotected; });
}

namespace {

std::string DescribeJob(const JobPlan& job) {
  std::string text =
      absl::StrFormat("%s on %dx%d, window %d, %d connections, %s%s", job.consistency, job.nodes,
                      job.ranks_per_node, job.window, job.connections,
                      job.takes_first_weights ? "rank 0's first weights, " : "", job.Shape());
  if (job.replicas > 0) text += ", in two copies";
  if (job.waits_unprotected) text += ", or it waits";
  if (job.replaces) text += ", nodes are replaced";
  if (job.step_time > absl::ZeroDuration()) {
    absl::StrAppend(&text, ", steps of ", absl::FormatDuration(job.step_time));
  }
  return text;
}

}  // namespace

std::string Scenario::Describe() const {
  std::vector<std::string> parts;
  for (const JobPlan& job : jobs) parts.push_back(DescribeJob(job));
  if (is_sealed()) parts.push_back(proto::Job::Protection_Name(protection));
  parts.push_back(absl::StrFormat("servers of %s shards", absl::StrJoin(shards_of_server, "+")));
  parts.push_back(absl::StrCat("delay to ", absl::FormatDuration(faults.delay_max)));
  auto add = [&](const char* name, double p) {
    if (p > 0) parts.push_back(absl::StrFormat("%s %.3g%%", name, 100 * p));
  };
  add("slow connection", faults.slow_connection);
  add("drop", faults.drop);
  add("duplicate", faults.duplicate);
  add("reorder", faults.reorder);
  add("corrupt", faults.corrupt);
  add("break", faults.break_both);
  add("half-open", faults.break_one);
  add("close unseen", faults.close_unseen);
  if (partition_every < absl::InfiniteDuration()) {
    parts.push_back(absl::StrCat("partition every ", absl::FormatDuration(partition_every)));
  }
  parts.push_back(absl::StrCat("resend after ", absl::FormatDuration(timing.resend_after)));
  if (slots > 0) parts.push_back(absl::StrFormat("%d slots", slots));
  auto count = [&](const char* name, uint32_t times) {
    if (times > 0) parts.push_back(absl::StrFormat("%d %s", times, name));
  };
  count("restarts of the coordinator", control.restarts);
  count("pauses of the coordinator", control.pauses);
  count("lost workers", control.lost_workers);
  count("lost servers", control.lost_servers);
  count("silent daemons", control.silences);
  count("servers gone for good", control.gone_for_good);
  count("servers back empty", control.back_empty);
  count("stopped servers", control.stops);
  count("servers cut off", control.cut_offs);
  count("servers apart", control.apart);
  count("pairs of servers lost", control.both_lost);
  count("spare workers", nodes.spare_workers);
  count("of them late", nodes.late_workers);
  count("workers that stand in", nodes.stand_ins);
  count("drains", nodes.drains);
  count("workers that leave", nodes.leaves);
  count("deaths of nodes", nodes.deaths);
  count("nodes that stand still for long", nodes.freezes);
  count("drains of servers", nodes.server_drains);
  if (jobs[0].replicas > 0) {
    parts.push_back(absl::StrFormat("new copies after %s, filled by %d bytes",
                                    absl::FormatDuration(control.backup_pause),
                                    control.fill_ahead_bytes));
  }
  for (size_t i = 0; i < kRares; ++i) add(ToString(static_cast<Rare>(i)), rare[i]);
  return absl::StrJoin(parts, "; ");
}

namespace {

constexpr const char* kNames[] = {"queue full",
                                  "early resend",
                                  "HELLO twice",
                                  "RETRY",
                                  "reconnect",
                                  "slow rank",
                                  "stopped node",
                                  "stopped shard",
                                  "stale view",
                                  "future view",
                                  "other generation",
                                  "clock jump",
                                  "other job",
                                  "other node",
                                  "other content",
                                  "INIT conflict",
                                  "install twice",
                                  "publish order",
                                  "node restart",
                                  "session break",
                                  "slow start",
                                  "stalled line",
                                  "old Register",
                                  "no answer",
                                  "unreachable",
                                  "cancel",
                                  "restart",
                                  "stopped coordinator",
                                  "lost worker",
                                  "lost server",
                                  "silent daemon",
                                  "repeated connection",
                                  "gone for good",
                                  "stopped server",
                                  "cut-off server",
                                  "servers apart",
                                  "both lost",
                                  "restart at save",
                                  "taken over",
                                  "gone alone",
                                  "new copy",
                                  "new copy whole",
                                  "late copy takes over",
                                  "no room for copy",
                                  "disturbed fill",
                                  "disturbed new copy",
                                  "late removal",
                                  "late report",
                                  "late worker",
                                  "drain",
                                  "undrain",
                                  "leaving",
                                  "node dies",
                                  "joiner begins",
                                  "joined",
                                  "left",
                                  "void change",
                                  "disturbed change",
                                  "restart at change",
                                  "stands in",
                                  "leaves stand-in",
                                  "dropped",
                                  "ring asked again",
                                  "ring formed",
                                  "ring lacks a step",
                                  "ring is over",
                                  "frozen node",
                                  "word twice",
                                  "disturbed ring",
                                  "disturbed end",
                                  "server drain",
                                  "next backup",
                                  "backup leaves",
                                  "primary leaves",
                                  "next backup is void",
                                  "disturbed move"};
static_assert(std::size(kNames) == kRares);

}  // namespace

const char* ToString(Rare rare) { return kNames[static_cast<size_t>(rare)]; }

}  // namespace strata::sim
