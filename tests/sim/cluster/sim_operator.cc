#include "tests/sim/cluster/sim_operator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/transport/sim/random.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/sim_server.h"
#include "tests/sim/cluster/sim_worker.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

namespace {

// Longer than the wait for a daemon.
constexpr absl::Duration kSilenceMin = absl::Milliseconds(5500);
constexpr absl::Duration kSilenceMax = absl::Seconds(9);
// The first jobs begin to train by then in most runs.
constexpr absl::Duration kFirstTrain = absl::Milliseconds(80);
// Shorter than the wait of a placement.
constexpr absl::Duration kApartMax = absl::Seconds(5);
// Longer than the wait for a backup, and then for a server.
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

// During the fill, or until it is known to be over.
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

// The order determines the ids.
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

// Workers of jobs whose nodes come and go.

namespace {

// How long a worker stays drained, and the notice of one that is about to end.
constexpr absl::Duration kDrainedMax = absl::Seconds(20);
constexpr absl::Duration kNoticeMax = absl::Seconds(10);

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
  // In an all-reduce that drops dead nodes, mostly once it trains.
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

absl::Duration SimOperator::SoonAfterChange() {
  // At most as far from the change's step as its next step may be.
  constexpr absl::Duration kSoonMax = absl::Milliseconds(30);
  if (world_->random().Chance(0.3)) return absl::ZeroDuration();
  return absl::Microseconds(
      std::exp2(std::log2(absl::ToDoubleMicroseconds(kSoonMax)) * world_->random().Fraction()));
}

void SimOperator::OnChange(const proto::StoredJob& job) {
  if (!world_->Takes(Rare::kDisturbedChange)) return;
  world_->network().After(SoonAfterChange(), [this, job] { DisturbChange(job); });
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

// All-reduces that drop nodes that die.

namespace {

// The share of steps after which a fault may happen.
constexpr double kOfSteps = 0.1;

}  // namespace

void SimOperator::OnRing(uint32_t job) {
  if (!world_->plan(job).drops_lost || !world_->Takes(Rare::kDisturbedRing)) return;
  world_->network().After(SoonAfterChange(), [this, job] { DisturbRing(job); });
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

namespace {

// Mostly less than it takes to fill a copy.
constexpr absl::Duration kSoonMax = absl::Seconds(2);

// Repeats while nobody answers. `done`: called once it is done.
void Ask(const std::string& server, bool undo, const std::function<void()>& done, World* world) {
  // Its shards begin to leave, or to stay, before the answer.
  world->causes().OnDrainAsked(server, undo);
  const absl::Status asked = world->coordinator().Drain(server, undo);
  if (asked.ok()) {
    world->causes().OnDrainDone(server, undo);
    return done();
  }
  if (!absl::IsUnavailable(asked)) return;  // it has not joined yet
  world->network().After(kTryAgain, [=] { Ask(server, undo, done, world); });
}

class ServerDrains : public std::enable_shared_from_this<ServerDrains> {
 public:
  explicit ServerDrains(World* world) : world_(world), random_(world->scenario().seed ^ 0x647261) {}

  void Next(uint32_t times) {
    if (times == 0) return;
    const absl::Duration wait = absl::Milliseconds(std::exp2(4 + 10 * random_.Fraction()));
    world_->network().After(wait, [self = shared_from_this(), times] {
      self->Drain();
      self->Next(times - 1);
    });
  }

 private:
  // A job not placed yet would wait for the drained servers, and fail because of that.
  void Drain() {
    const std::string& server = world_->servers()[random_.Below(world_->servers().size())]->name();
    const absl::Duration pause = random_.Between(absl::ZeroDuration(), kDrainedMax);
    if (world_->checker(1) == nullptr) return Next(1);
    const auto is_drained = [=, self = shared_from_this()] {
      self->world_->Count(Rare::kServerDrain);
      self->world_->network().After(pause, [self, server] {
        Ask(
            server, /*undo=*/true, [] {}, self->world_);
      });
    };
    Ask(server, /*undo=*/false, is_drained, world_);
  }

  World* const world_;
  transport::SimRandom random_;
};

}  // namespace

void DrainServers(World* world) {
  std::make_shared<ServerDrains>(world)->Next(world->scenario().nodes.server_drains);
}

void DisturbMove(const std::vector<std::string>& servers, World* world) {
  if (!world->Takes(Rare::kDisturbedMove)) return;
  transport::SimRandom& random = world->random();
  const std::string name = servers[random.Below(servers.size())];
  const absl::Duration pause = random.Between(absl::ZeroDuration(), kApartLong);
  const absl::Duration down = random.Between(absl::ZeroDuration(), kRestartMax);
  const uint64_t what = random.Below(6);
  world->network().After(random.Between(absl::ZeroDuration(), kSoonMax), [=] {
    const auto& all = world->servers();
    const auto server =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one->name() == name; });
    if (server == all.end()) return;
    if (what < 3) return (*server)->Lose();
    if (what == 3) return (*server)->Stop(pause);
    if (what == 4) return (*server)->CutOff(pause);
    world->coordinator().Restart(down);
  });
}

}  // namespace strata::sim
