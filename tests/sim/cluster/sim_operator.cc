#include "tests/sim/cluster/sim_operator.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/sim_server.h"
#include "tests/sim/cluster/sim_worker.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

constexpr absl::Duration kTryAgain = absl::Milliseconds(300);
// A coordinator that is away for longer than messages are kept for.
constexpr absl::Duration kRestartMax = absl::Seconds(20);
constexpr absl::Duration kPauseMax = absl::Seconds(12);
// Beyond what a daemon is waited for.
constexpr absl::Duration kSilenceMin = absl::Milliseconds(5500);
constexpr absl::Duration kSilenceMax = absl::Seconds(9);
// When the first jobs begin to train, in most runs.
constexpr absl::Duration kFirstTrain = absl::Milliseconds(80);
// Within what a placement is waited for.
constexpr absl::Duration kApartMax = absl::Seconds(5);
// Beyond what a backup, and then a server, is waited for.
constexpr absl::Duration kApartLong = absl::Seconds(14);

}  // namespace

SimOperator::SimOperator(World* world) : world_(world) {}

absl::Duration SimOperator::SomeTime() {
  return absl::Milliseconds(std::exp2(15 * world_->random().Fraction()));
}

void SimOperator::Repeat(uint32_t times, std::function<void()> what) {
  if (times == 0) return;
  world_->network().After(SomeTime(), [this, times, what = std::move(what)] {
    what();
    Repeat(times - 1, what);
  });
}

void SimOperator::Start() {
  Submit(0);
  KeepApart();
  const ControlFaults& faults = world_->scenario().control;
  const auto some = [this](const auto& all) -> auto& {
    return *all[world_->random().Below(all.size())];
  };
  Repeat(faults.restarts, [this] {
    world_->coordinator().Restart(world_->random().Between(absl::ZeroDuration(), kRestartMax));
  });
  Repeat(faults.pauses, [this] {
    world_->coordinator().StandStill(world_->random().Between(absl::ZeroDuration(), kPauseMax));
  });
  Repeat(faults.lost_workers, [this, some] { some(world_->workers()).Lose(); });
  Repeat(faults.lost_servers, [this, some] { some(world_->servers()).Lose(); });
  Repeat(faults.silences, [this, some] {
    const bool worker = world_->random().Chance(0.5);
    const SimDaemon& daemon =
        worker ? static_cast<SimDaemon&>(some(world_->workers())) : some(world_->servers());
    const bool was_heard = world_->coordinator().Silence(
        daemon.name(), world_->random().Between(kSilenceMin, kSilenceMax));
    if (!was_heard) return;
    world_->Count(Rare::kSilentDaemon);
    world_->causes().OnLost(daemon.Describe());
  });
  DisturbWorkers();
  if (faults.disturbs_servers()) world_->network().After(kFirstTrain, [this] { DisturbServers(); });
}

void SimOperator::DisturbServers() {
  const ControlFaults& faults = world_->scenario().control;
  const auto some = [this]() -> SimServer& {
    return *world_->servers()[world_->random().Below(world_->servers().size())];
  };
  const auto pause = [this] { return world_->random().Between(absl::ZeroDuration(), kApartLong); };
  // Jobs wait for servers for as long as there is none, and some for a second one.
  Repeat(faults.gone_for_good,
         [this, some, least = world_->scenario().waits_unprotected() ? 2 : 1] {
           const auto& all = world_->servers();
           const auto is_there = [](const auto& server) { return !server->is_gone(); };
           if (std::count_if(all.begin(), all.end(), is_there) > least) some().LoseForGood();
         });
  Repeat(faults.back_empty, [some] { some().Lose(); });
  Repeat(faults.stops, [some, pause] { some().Stop(pause()); });
  Repeat(faults.cut_offs, [some, pause] { some().CutOff(pause()); });
  Repeat(faults.apart, [this] {
    const auto [one, other] = TwoServers();
    PartServers(*world_->servers()[one], *world_->servers()[other]);
  });
  Repeat(faults.both_lost, [this] { LoseBoth(); });
}

std::pair<size_t, size_t> SimOperator::TwoServers() {
  const size_t all = world_->servers().size();
  const size_t one = world_->random().Below(all);
  return {one, all < 2 ? one : (one + 1 + world_->random().Below(all - 1)) % all};
}

void SimOperator::PartServers(const SimServer& one, const SimServer& other) {
  const uint32_t from = one.host(), to = other.host();
  if (from == to) return;
  world_->Count(Rare::kServersApart);
  world_->network().CutPair(from, to, true);
  world_->network().After(world_->random().Between(absl::ZeroDuration(), kApartLong),
                          [this, from, to] { world_->network().CutPair(from, to, false); });
}

// Within the fill, or until it is known to be over.
void SimOperator::OnFill(const std::string& primary, const std::string& address) {
  if (!world_->Takes(Rare::kDisturbedFill)) return;
  const absl::Duration most =
      world_->random().Chance(0.5) ? absl::Milliseconds(2) : absl::Seconds(1);
  DisturbCopies(primary, address, world_->random().Between(absl::ZeroDuration(), most));
}

void SimOperator::OnWhole(const std::string& primary, const std::string& address) {
  if (!world_->Takes(Rare::kDisturbedNewCopy)) return;
  DisturbCopies(primary, address,
                world_->random().Between(absl::ZeroDuration(), absl::Milliseconds(300)));
}

void SimOperator::DisturbCopies(const std::string& primary, const std::string& address,
                                absl::Duration later) {
  const auto& all = world_->servers();
  const auto first = std::find_if(all.begin(), all.end(),
                                  [&](const auto& server) { return server->name() == primary; });
  const auto second = std::find_if(all.begin(), all.end(),
                                   [&](const auto& server) { return server->Listens(address); });
  if (first == all.end() || second == all.end()) return;
  world_->network().After(later, [this, one = first->get(), other = second->get()] {
    if (world_->random().Chance(0.6)) return one->Lose();
    DisturbCopies(one, other);
  });
}

void SimOperator::DisturbCopies(SimServer* primary, SimServer* backup) {
  const absl::Duration pause = world_->random().Between(absl::ZeroDuration(), kApartLong);
  switch (world_->random().Below(6)) {
    case 0:
      return backup->Lose();
    case 1:
      return primary->Stop(pause);
    case 2:
      return backup->Stop(pause);
    case 3:
      return (world_->random().Chance(0.5) ? primary : backup)->CutOff(pause);
    case 4:
      return PartServers(*primary, *backup);
    default:
      return world_->coordinator().Restart(
          world_->random().Between(absl::ZeroDuration(), kRestartMax));
  }
}

void SimOperator::LoseBoth() {
  const auto [one, other] = TwoServers();
  world_->Count(Rare::kBothLost);
  world_->servers()[one]->Lose();
  const bool at_once = world_->random().Chance(0.5);
  world_->network().After(
      at_once ? absl::ZeroDuration() : world_->random().Between(absl::ZeroDuration(), kSilenceMax),
      [this, other] { world_->servers()[other]->Lose(); });
}

// In this order: ids follow from it.
void SimOperator::Submit(size_t job) {
  if (job == world_->scenario().jobs.size()) return;
  const absl::Duration wait =
      world_->random().Between(absl::Microseconds(1), absl::Milliseconds(10));
  world_->network().After(wait, [this, job] {
    proto::Job asked = world_->scenario().jobs[job].ToJob();
    asked.set_protection(world_->scenario().protection);
    const absl::StatusOr<JobId> id = world_->coordinator().Submit(asked);
    if (absl::IsUnavailable(id.status())) {
      world_->network().After(kTryAgain, [this, job] { Submit(job); });
      return;
    }
    if (!id.ok()) return world_->Fail("jobs end well: submit: " + id.status().ToString());
    if (id->value() != job + 1) world_->Fail(absl::StrCat("job ids are given once: ", id->value()));
    if (world_->Takes(Rare::kCancel)) {
      world_->network().After(SomeTime(), [this, id = id->value()] { Cancel(id); });
    }
    Submit(job + 1);
  });
}

void SimOperator::Cancel(uint32_t job) {
  world_->causes().OnCancel(job);
  const absl::Status cancelled = world_->coordinator().Cancel(job);
  if (absl::IsUnavailable(cancelled)) {
    world_->network().After(kTryAgain, [this, job] { Cancel(job); });
  } else if (!cancelled.ok() || !world_->has_ended(job)) {
    world_->Fail(
        absl::StrFormat("jobs end when they are cancelled: job %d: %s", job, cancelled.ToString()));
  }
}

void SimOperator::KeepApart() {
  for (const auto& worker : world_->workers()) {
    for (const auto& server : world_->servers()) {
      if (!world_->Takes(Rare::kUnreachable)) continue;
      const auto pair = std::make_pair(worker->name(), server->name());
      const uint32_t from = worker->host(), to = server->host();
      kept_apart_.insert(pair);
      world_->network().CutPair(from, to, true);
      world_->causes().OnKeptApart(pair.first, pair.second);
      world_->network().After(world_->random().Between(absl::ZeroDuration(), kApartMax),
                              [this, pair, from, to] {
                                kept_apart_.erase(pair);
                                world_->network().CutPair(from, to, false);
                              });
    }
  }
}

bool SimOperator::IsKeptFrom(const std::string& worker, const std::string& server) const {
  return kept_apart_.count({worker, server}) > 0;
}

}  // namespace strata::sim
