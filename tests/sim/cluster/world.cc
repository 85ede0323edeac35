#include "tests/sim/cluster/world.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "common/log.h"
#include "tests/sim/check/ring_checker.h"
#include "tests/sim/cluster/eavesdropper.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/sim_server.h"
#include "tests/sim/cluster/sim_worker.h"

namespace strata::sim {
namespace {

using transport::SimNote;

constexpr uint64_t kEventsMax = 20'000'000;
// Longer than any fault takes, a hundred times in a row.
constexpr absl::Duration kStuckAfter = absl::Seconds(1000);
constexpr absl::Duration kWatchEvery = absl::Seconds(20);
// Longer than any daemon or the coordinator is away.
constexpr absl::Duration kSettledWithin = absl::Minutes(2);

}  // namespace

World::World(const Scenario& scenario, EventLog* log)
    : scenario_(scenario),
      log_(log),
      network_(scenario.seed ^ 0x6e6574),
      random_(scenario.seed ^ 0x776f726c64) {
  network_.set_faults(scenario.faults);
  outcome_.scenario = scenario;
  Observe();
}

World::~World() = default;

void World::Observe() {
  network_.set_observer([this](SimNote note, const std::string& from, const std::string& to,
                               transport::ConnectionId connection, const wire::Header* header) {
    uint64_t what = connection.value() * 64 + static_cast<uint64_t>(note);
    if (header != nullptr) {
      what = what * 1000003 + static_cast<uint64_t>(header->op) * 65599 + header->chunk;
      what = what * 1000003 + header->clock * 31 + header->version;
    }
    Log(what, [&] {
      return absl::StrFormat("%-13s %s -> %s (connection %d)%s", ToString(note), from, to,
                             connection.value(),
                             header == nullptr ? "" : "  " + wire::Describe(*header));
    });
    const bool resends_early = scenario_.rare[static_cast<size_t>(Rare::kEarlyResend)] > 0;
    if (resends_early && header != nullptr && early_resends_.See(note, connection, *header)) {
      Count(Rare::kEarlyResend);
    }
    if (eavesdropper_ != nullptr) eavesdropper_->OnNote(note, connection);
    // A sealed job must not fail because of that.
    if (note == SimNote::kCorrupted && !scenario_.is_sealed()) {
      causes_.OnCorrupted(SimNode::JobOf(from));
    }
    // Rare::kReconnect: a connection that has just carried a frame breaks.
    if (note == SimNote::kDelivered && Takes(Rare::kReconnect)) {
      network_.After(absl::ZeroDuration(),
                     [this, connection] { network_.Break(connection, random_.Chance(0.5)); });
    }
  });
}

bool World::Takes(Rare rare) {
  if (!random_.Chance(scenario_.rare[static_cast<size_t>(rare)])) return false;
  Count(rare);
  return true;
}

void World::Fail(const std::string& violation) {
  if (!outcome_.violation.empty()) return;
  outcome_.violation = violation;
  Log(9, [&] { return "VIOLATION " + violation; });
}

void World::FailInTheEnd(const std::string& violation) {
  if (!late_violation_.empty()) return;
  late_violation_ = violation;
  Log(9, [&] { return "VIOLATION, seen to the end: " + violation; });
}

NodeChecker* World::checker(uint32_t job) {
  const auto found = checkers_.find(job);
  return found == checkers_.end() ? nullptr : found->second.get();
}

JobChecker* World::shard_checker(uint32_t job) { return dynamic_cast<JobChecker*>(checker(job)); }

RingChecker* World::ring_checker(uint32_t job) { return dynamic_cast<RingChecker*>(checker(job)); }

void World::OnTrained(uint32_t job, uint32_t node) {
  outcome_.trained_at[{job, node}] = network_.Now() - absl::UnixEpoch();
  operator_->OnRing(job);
}

void World::OnPlaced(const proto::JobRecord& record) {
  const uint32_t job = record.job_id();
  if (checkers_.count(job) > 0) return;
  if (plan(job).is_ring()) {
    checkers_[job] =
        std::make_unique<RingChecker>(plan(job), record, [this](const std::string& v) { Fail(v); });
    return;
  }
  checkers_[job] = std::make_unique<JobChecker>(
      plan(job), record, scenario_.reserve,
      [this](const std::string& v, bool goes_on) { goes_on ? FailInTheEnd(v) : Fail(v); });
}

bool World::OnNodeError(uint32_t job, const std::string& reason) {
  if (ended_.count(job) > 0) return false;  // it will be told to stop
  if (causes_.ExplainNodeError(job, reason)) return true;
  Fail(absl::StrFormat("jobs end well: job %d: %s", job, reason));
  return false;
}

void World::OnEnded(uint32_t job, proto::JobState state, const std::string& reason) {
  Progress();
  ended_.insert(job);
  Log(12, [&] {
    return absl::StrFormat("job %d is %s: %s", job, proto::JobState_Name(state), reason);
  });
  if (!causes_.Explain(job, state, reason, network_.Now())) {
    return Fail(
        absl::StrFormat("jobs end well: job %d: %s: %s", job, proto::JobState_Name(state), reason));
  }
  const bool is_short = absl::StrContains(reason, " would be left, and the job goes on with no ");
  const bool has_enough = plan(job).nodes >= plan(job).nodes_min + causes_.CountGone(job);
  if (is_short && has_enough) {
    return Fail(absl::StrFormat("who has enough nodes goes on: job %d: %s", job, reason));
  }
  if (state == proto::FINISHED) {
    NodeChecker* const checker = this->checker(job);
    if (checker == nullptr) return Fail(absl::StrCat("no job trains without shards: job ", job));
    return checker->OnFinished();
  }
  failed_.insert(job);
  ++(state == proto::FAILED ? outcome_.jobs_failed : outcome_.jobs_cancelled);
}

void World::WatchProgress() {
  if (network_.Now() - progress_at_ > kStuckAfter) {
    Fail(absl::StrCat("no deadlock: nothing has moved for ", absl::FormatDuration(kStuckAfter)));
  }
  network_.After(kWatchEvery, [this] { WatchProgress(); });
}

// Two partitions for a while, then whole again.
void World::Partition() {
  const absl::Duration wait = scenario_.partition_every * (0.5 + random_.Fraction());
  network_.After(wait, [this] {
    const uint64_t side = random_.Next();
    ++outcome_.partitions;
    network_.Partition(side, random_.Chance(0.5));
    Log(10, [&] { return absl::StrFormat("partition %x", side & ((1 << next_host_) - 1)); });
    network_.After(random_.Between(absl::ZeroDuration(), scenario_.outage_max), [this] {
      network_.Heal();
      Log(11, [] { return std::string("healed"); });
      Partition();
    });
  });
}

Outcome World::Run() {
  causes_.set_servers(scenario_.shards_of_server.size(), scenario_.jobs[0].replicas > 0);
  coordinator_ = std::make_unique<SimCoordinator>(this);
  for (size_t s = 0; s < scenario_.shards_of_server.size(); ++s) {
    servers_.push_back(
        std::make_unique<SimServer>(this, absl::StrCat("s", s), scenario_.shards_of_server[s]));
  }
  uint32_t workers = 0, slots = 0;
  for (const JobPlan& plan : scenario_.jobs) {
    workers = std::max(workers, plan.nodes);
    slots += plan.ranks_per_node;
  }
  if (scenario_.slots > 0) slots = scenario_.slots;
  const NodeFaults& nodes = scenario_.nodes;
  for (uint32_t w = 0; w < workers + nodes.spare_workers; ++w) {
    const bool is_late = w + nodes.late_workers >= workers + nodes.spare_workers;
    workers_.push_back(std::make_unique<SimWorker>(
        this, absl::StrCat("w", w), slots,
        is_late ? absl::Milliseconds(std::exp2(1 + 13 * random_.Fraction()))
                : absl::ZeroDuration()));
  }
  for (uint32_t x = 0; x < nodes.stand_ins; ++x) {
    workers_.push_back(std::make_unique<SimWorker>(this, absl::StrCat("x", x), slots,
                                                   absl::ZeroDuration(), /*stands_in=*/true));
  }
  operator_ = std::make_unique<SimOperator>(this);
  if (scenario_.is_sealed()) eavesdropper_ = std::make_unique<Eavesdropper>(this);
  operator_->Start();
  DrainServers(this);
  WatchProgress();
  if (scenario_.partition_every < absl::InfiniteDuration()) Partition();
  while (outcome_.ok() && ended_.size() < scenario_.jobs.size() && network_.RunOne()) {
    graveyard_.clear();
    if (++outcome_.events > kEventsMax) Fail("no deadlock: the run does not end");
  }
  // Everything is ended, including processes that come back.
  const absl::Time end = network_.Now() + kSettledWithin;
  while (outcome_.ok() && !WhoIsBusy().empty() && network_.RunOne()) {
    graveyard_.clear();
    if (network_.Now() > end) Fail("ended jobs leave nothing behind: held by " + WhoIsBusy());
  }
  if (outcome_.ok()) coordinator_->Finish();
  Finish();
  return outcome_;
}

std::string World::WhoIsBusy() const {
  for (const auto& worker : workers_) {
    if (!worker->is_idle()) return worker->Describe();
  }
  for (const auto& server : servers_) {
    if (!server->is_idle()) return server->Describe();
  }
  return "";
}

void World::Finish() {
  outcome_.log_hash = log_->hash();
  outcome_.virtual_time = network_.Now() - absl::UnixEpoch();
  for (size_t i = 0; i < transport::kSimNotes; ++i) {
    outcome_.network[i] = network_.count(static_cast<SimNote>(i));
  }
  if (!late_violation_.empty()) Fail(late_violation_);
  if (!outcome_.ok()) return;
  const bool replayed = outcome_.rare[static_cast<size_t>(Rare::kNodeRestart)] > 0;
  for (const auto& [job, checker] : checkers_) {
    outcome_.pushes += checker->pushes();
    if (has_failed(job)) continue;
    if (!failed_.empty()) ++outcome_.jobs_unharmed;
    // A node that repeats local steps from newer weights has lost other fractions to the codec or
    // to significance.
    const bool has_residual =
        !plan(job).push.empty() || absl::StrContains(plan(job).consistency, "significance");
    const bool other_residual = plan(job).local_steps > 0 && has_residual;
    const bool other_bits = replayed && (scenario_.other_bits || other_residual);
    if (!checker->is_reproducible() || other_bits) continue;
    outcome_.models.push_back({plan(job).Shape(), checker->ModelHash()});
  }
}

Outcome RunScenario(const Scenario& scenario, EventLog* log) {
  // The cores' own log lines would cover every daemon of every run.
  static const bool quiet = InitLogging("off", "sim").ok();
  (void)quiet;
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  EventLog none;
  return World(scenario, log == nullptr ? &none : log).Run();
}

Outcome RunSeed(uint64_t seed, const Scenario::Limits& limits, EventLog* log) {
  return RunScenario(Scenario::Draw(seed, limits), log);
}

}  // namespace strata::sim
