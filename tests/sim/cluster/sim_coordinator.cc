#include "tests/sim/cluster/sim_coordinator.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/sim/check/ring_checker.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

namespace {

constexpr absl::Duration kBeat = absl::Milliseconds(450);
constexpr absl::Duration kDelayMin = absl::Microseconds(50);
constexpr absl::Duration kDelayMax = absl::Milliseconds(5);
// Delay until a break is noticed: short enough for the daemon to return before it is given up.
constexpr absl::Duration kNoticedByDaemon = absl::Milliseconds(1200);
constexpr absl::Duration kNoticedByCoordinator = absl::Seconds(4);
// Two breaks in such quick succession may cost a daemon.
constexpr absl::Duration kBetweenBreaks = absl::Seconds(8);
// Longer than a daemon has to report how its jobs ended, and not yet silence.
constexpr absl::Duration kStallMin = absl::Milliseconds(3100);
constexpr absl::Duration kStallMax = absl::Milliseconds(4400);
constexpr absl::Duration kCopyLate = absl::Seconds(30);
// Not yet silence.
constexpr absl::Duration kReportLate = absl::Seconds(2);

// It no longer uses the connection.
void TellClient(ControlStream* line) {
  ControlStream::Client* const client = std::exchange(line->client, nullptr);
  if (client != nullptr) client->OnBroken();
}

}  // namespace

SimCoordinator::SimCoordinator(World* world)
    : world_(world), checker_([world](const std::string& v) { world->Fail(v); }) {
  Start();
  world_->network().After(kBeat, [this] { Beat(); });
}

void SimCoordinator::Start() {
  ++process_;
  server::CoordinatorCore::Options options;
  options.jobs.backup_pause = world_->scenario().control.backup_pause;
  options.jobs.passed_over_for = world_->scenario().control.passed_over_for;
  options.jobs.change_pause = world_->scenario().nodes.change_pause;
  options.jobs.joiner_pause = world_->scenario().nodes.joiner_pause;
  options.jobs.protection = [has_keys = world_->scenario().is_sealed()] {
    return server::ProtectionRules{.has_keys = has_keys, .keeps_secrets = has_keys};
  };
  options.jobs.new_secret = [this] {
    std::string secret(32, '\0');
    for (char& byte : secret) byte = static_cast<char>(world_->random().Below(256));
    return secret;
  };
  core_ = std::make_unique<server::CoordinatorCore>(options, "sim", this);
  std::vector<proto::StoredJob> jobs;
  for (const auto& [id, stored] : stored_) jobs.push_back(stored);
  world_->causes().OnStart(world_->network().Now());
  core_->RestoreDraining(draining_);
  core_->Restore(jobs, next_job_, seen_, world_->network().Now());
  // Followers of a job ask again.
  for (const proto::StoredJob& job : jobs) {
    if (job.status().state() > proto::RUNNING) TakeStatus(job.record().job_id(), job.status());
  }
}

void SimCoordinator::Restart(absl::Duration down) {
  if (core_ == nullptr) return;
  world_->Count(Rare::kCoordinatorRestart);
  world_->Log(13, [] { return std::string("the coordinator's process ends"); });
  std::set<uint32_t> starting;
  for (const auto& [id, stored] : stored_) {
    if (stored.status().state() == proto::RUNNING && !stored.training()) starting.insert(id);
  }
  world_->causes().OnRestart(std::move(starting), !stored_.empty() || !seen_.empty());
  checker_.OnRestart();
  core_.reset();
  stands_still_ = dies_ = false;
  waiting_.clear();
  for (const auto& [session, line] : std::exchange(lines_, {})) Break(line);
  world_->network().After(down, [this] {
    world_->Log(14, [] { return std::string("a new process of the coordinator"); });
    Start();
  });
}

void SimCoordinator::StandStill(absl::Duration pause) {
  if (core_ == nullptr || stands_still_) return;
  world_->Count(Rare::kStoppedCoordinator);
  world_->Log(15, [] { return std::string("the coordinator stands still"); });
  stands_still_ = true;
  world_->network().After(pause, [this, process = process_] {
    if (core_ == nullptr || process != process_) return;
    world_->Log(16, [] { return std::string("the coordinator goes on"); });
    stands_still_ = false;
    core_->Tick(world_->network().Now());
    for (const auto& what : std::exchange(waiting_, {})) what();
  });
}

bool SimCoordinator::Silence(const std::string& daemon, absl::Duration pause) {
  bool was_heard = false;
  for (const auto& [session, line] : lines_) {
    if (line->daemon != daemon || line->broken) continue;
    line->silent_until = line->up_until = world_->network().Now() + pause;
    was_heard = true;
  }
  return was_heard;
}

// A daemon sends heartbeats only on a connection on which it has registered.
void SimCoordinator::Beat() {
  const absl::Time now = world_->network().Now();
  world_->network().After(kBeat, [this] { Beat(); });
  if (core_ == nullptr || stands_still_) return;
  std::vector<std::pair<Line, proto::DaemonMessage>> heard;
  for (const auto& [session, line] : lines_) {
    const bool says = line->client != nullptr && line->client->is_registered();
    if (!says || line->broken || line->silent_until > now) continue;
    *heard.emplace_back(line, proto::DaemonMessage()).second.mutable_heartbeat() =
        line->client->MakeHeartbeat();
  }
  for (const auto& [line, message] : heard) TakeHeartbeat(line, message);
  if (!dies_) core_->Tick(now);
}

void SimCoordinator::TakeHeartbeat(const Line& line, const proto::DaemonMessage& message) {
  const absl::Time now = world_->network().Now();
  const bool may_be_late = world_->scenario().rare[static_cast<size_t>(Rare::kLateReport)] > 0;
  // After a stall it would be silence.
  if (may_be_late && now - line->silent_until > kReportLate && world_->Takes(Rare::kLateReport)) {
    const absl::Duration late = world_->random().Between(absl::ZeroDuration(), kReportLate);
    line->up_until = std::max(line->up_until, now + late);
  }
  const auto take = [this, line, message] {
    if (!dies_ && !line->broken) {
      core_->OnMessage(line->session, message, world_->network().Now());
    }
  };
  if (!may_be_late || line->up_until <= now) return take();
  world_->network().After(line->up_until - now, [this, line, take] {
    if (!line->broken && line->process == process_) Do(take);
  });
}

void SimCoordinator::Do(std::function<void()> what) {
  if (core_ == nullptr) return;
  if (stands_still_) {
    waiting_.push_back(std::move(what));
  } else {
    what();
  }
}

absl::Duration SimCoordinator::InOrder(absl::Time* last) {
  const absl::Time now = world_->network().Now();
  *last = std::max(*last, now + world_->random().Between(kDelayMin, kDelayMax));
  return *last - now;
}

std::shared_ptr<ControlStream> SimCoordinator::Connect(ControlStream::Client* client) {
  if (core_ == nullptr) return nullptr;
  auto line = std::make_shared<ControlStream>();
  line->session = server::SessionId(next_session_++);
  line->process = process_;
  line->daemon = client->name();
  line->client = client;
  lines_[line->session] = line;
  Do([this, line] { core_->OnConnected(line->session, world_->network().Now()); });
  return line;
}

void SimCoordinator::Say(const Line& line, proto::DaemonMessage message) {
  MaybeBreak(line);
  world_->network().After(InOrder(&line->up_until), [this, line, message = std::move(message)] {
    if (line->broken || line->process != process_) return;
    world_->Log(message.message_case(), [&] {
      return absl::StrFormat("%s -> coordinator  %s", line->daemon,
                             message.ShortDebugString().substr(0, 240));
    });
    Do([this, line, message] { Take(line, message); });
  });
}

void SimCoordinator::Take(const Line& line, const proto::DaemonMessage& message) {
  const absl::Time now = world_->network().Now();
  if (message.has_register_()) line->registration = message.register_();
  if (lines_.count(line->session) > 0) checker_.OnWord(line->registration, message);
  if (message.has_register_() && message.register_().role() == proto::SERVER) {
    const auto& held = message.register_().running_jobs();
    world_->causes().OnHeld(line->daemon, {held.begin(), held.end()});
  }
  core_->OnMessage(line->session, message, now);
  if (dies_ || !message.has_register_()) return;
  // Together with a break it would be silence.
  if (!line->breaks_soon && !line->broken && world_->Takes(Rare::kStalledLine)) {
    line->silent_until = line->up_until = now + world_->random().Between(kStallMin, kStallMax);
    break_no_sooner_[line->daemon] = line->silent_until + kBetweenBreaks;
  }
  if (world_->Takes(Rare::kOldRegister)) RepeatRegister(message.register_());
}

void SimCoordinator::RepeatRegister(const proto::Register& registration) {
  SayCopy(registration);
  world_->network().After(
      world_->random().Between(absl::ZeroDuration(), kCopyLate), [this, registration] {
        if (!IsSaved(registration)) return;
        world_->Log(19, [&] { return absl::StrCat("a copy of ", registration.name()); });
        Do([this, registration] { SayCopy(registration); });
      });
}

void SimCoordinator::SayCopy(const proto::Register& registration) {
  proto::DaemonMessage message;
  *message.mutable_register_() = registration;
  copy_ = server::SessionId(next_session_++);
  copy_rejected_ = false;
  core_->OnConnected(copy_, world_->network().Now());
  core_->OnMessage(copy_, message, world_->network().Now());
  if (!copy_rejected_ && !dies_)
    world_->Fail("copies of registrations are refused: " + registration.name());
}

bool SimCoordinator::IsSaved(const proto::Register& registration) const {
  return std::any_of(seen_.begin(), seen_.end(), [&](const auto& entry) {
    return entry.daemon_id == registration.daemon_id() && entry.attempt >= registration.attempt();
  });
}

void SimCoordinator::HangUp(std::shared_ptr<ControlStream> line, absl::Duration noticed_after) {
  line->client = nullptr;
  line->broken = true;
  if (noticed_after < absl::InfiniteDuration()) Notice(line, noticed_after);
}

void SimCoordinator::MaybeBreak(const Line& line) {
  if (line->broken || world_->network().Now() < break_no_sooner_[line->daemon]) return;
  if (!world_->Takes(Rare::kSessionBreak)) return;
  line->breaks_soon = true;
  break_no_sooner_[line->daemon] = world_->network().Now() + kBetweenBreaks;
  world_->network().After(world_->random().Between(absl::ZeroDuration(), kDelayMax),
                          [this, line] { Break(line); });
}

void SimCoordinator::BreakLine(const std::string& daemon) {
  if (world_->network().Now() < break_no_sooner_[daemon]) return;
  break_no_sooner_[daemon] = world_->network().Now() + kBetweenBreaks;
  const auto lines = lines_;
  for (const auto& [session, line] : lines) {
    if (line->daemon == daemon) Break(line);
  }
}

void SimCoordinator::Break(const Line& line) {
  if (line->broken) return;
  line->broken = true;
  world_->Log(17, [&] { return absl::StrFormat("%s's line breaks", line->daemon); });
  Notice(line, world_->random().Between(absl::ZeroDuration(), kNoticedByCoordinator));
  world_->network().After(world_->random().Between(absl::ZeroDuration(), kNoticedByDaemon),
                          [line] { TellClient(line.get()); });
}

void SimCoordinator::Notice(const Line& line, absl::Duration after) {
  world_->network().After(after, [this, line] {
    if (line->process != process_) return;
    Do([this, line] {
      if (lines_.erase(line->session) == 0) return;
      core_->OnDisconnected(line->session, world_->network().Now());
    });
  });
}

void SimCoordinator::Send(server::SessionId session, const proto::CoordinatorMessage& message) {
  if (dies_) return;
  if (session == copy_) {
    copy_rejected_ = message.has_rejected();
    return;
  }
  const auto found = lines_.find(session);
  if (found == lines_.end()) return;
  const Line line = found->second;
  checker_.OnCommand(line->registration, message);
  world_->views().OnCommand(line->registration, message);
  const proto::ViewChange& change = message.change_view();
  const bool is_void =
      message.has_change_view() && change.joined().empty() && change.left().empty();
  if (is_void) world_->Count(Rare::kVoidChange);
  const bool is_worker = line->registration.role() == proto::WORKER;
  const std::string daemon = absl::StrCat(is_worker ? "worker " : "server ", line->daemon);
  if (message.has_registered()) world_->causes().OnMet(daemon);
  if (message.has_start_node()) {
    world_->causes().OnPlaced(message.start_node().record().job_id(), daemon);
  } else if (message.has_install_job()) {
    world_->causes().OnPlaced(message.install_job().record().job_id(), daemon);
  } else if (message.has_install_backup()) {
    world_->causes().OnPlaced(message.install_backup().record().job_id(), daemon);
  }
  MaybeBreak(line);
  world_->network().After(InOrder(&line->down_until), [this, line, message] {
    if (line->broken || line->client == nullptr) return;
    world_->Log(100 + message.message_case(), [&] {
      return absl::StrFormat("coordinator -> %s  %s", line->daemon,
                             message.ShortDebugString().substr(0, 240));
    });
    line->client->OnMessage(message);
  });
}

void SimCoordinator::Close(server::SessionId session) {
  const auto found = lines_.find(session);
  if (dies_ || found == lines_.end()) return;
  const Line line = found->second;
  lines_.erase(found);
  world_->network().After(InOrder(&line->down_until), [line] {
    if (!std::exchange(line->broken, true)) TellClient(line.get());
  });
}

void SimCoordinator::Forget(JobId job) {
  if (!dies_) stored_.erase(job.value());
}

absl::Status SimCoordinator::PersistSeen(
    const std::vector<server::SeenRegistrations::Entry>& seen) {
  if (!dies_) seen_.insert(seen_.end(), seen.begin(), seen.end());
  return absl::OkStatus();
}

absl::StatusOr<JobId> SimCoordinator::Submit(const proto::Job& job) {
  if (core_ == nullptr || stands_still_) return absl::UnavailableError("nobody answers");
  return core_->Submit(job, proto::ResumeFrom(), world_->random().Next(), world_->network().Now());
}

absl::Status SimCoordinator::Cancel(uint32_t job) {
  if (core_ == nullptr || stands_still_) return absl::UnavailableError("nobody answers");
  return core_->Cancel(JobId(job), world_->network().Now());
}

void SimCoordinator::Notify(JobId job, const proto::FollowEvent& event) {
  if (dies_ || !event.has_status()) return;
  TakeStatus(job.value(), event.status());
}

void SimCoordinator::TakeStatus(uint32_t job, const proto::JobStatus& status) {
  const proto::JobState state = status.state();
  if (state == proto::RUNNING) world_->causes().OnRunning(job, world_->network().Now());
  const bool has_just_ended = checker_.OnState(job, state);
  if (has_just_ended) world_->OnEnded(job, state, status.reason());
}

void SimCoordinator::Finish() {
  if (core_ == nullptr) Start();
  const proto::ListJobsReply reply = core_->ListJobs();
  if (reply.jobs_size() != static_cast<int>(world_->scenario().jobs.size())) {
    world_->Fail(absl::StrFormat("ended jobs stay ended: %d are known", reply.jobs_size()));
  }
  for (const proto::JobStatus& job : reply.jobs()) {
    checker_.OnState(job.job_id(), job.state());
  }
}

// Nodes that come and go, and the coordinator's death after a save.

namespace {

constexpr absl::Duration kDownMax = absl::Seconds(20);
constexpr uint32_t kDeathsAtSaveMax = 8;

// A node leaves one.
bool NamesStandIn(const std::string& reason) {
  return absl::StrContains(reason, " only stands in");
}

}  // namespace

void SimCoordinator::NoteChanges(const proto::StoredJob& before, const proto::StoredJob& job) {
  const uint32_t id = job.record().job_id();
  if (world_->plan(id).drops_lost) NoteLosses(before, job);
  const auto& changes = job.record().view_changes();
  for (int i = before.record().view_changes_size(); i < changes.size(); ++i) {
    if (JobChecker* const checker = world_->shard_checker(id)) checker->OnChangeDecided(changes[i]);
    if (!changes[i].joined().empty()) world_->Count(Rare::kJoined);
    if (!changes[i].left().empty()) world_->Count(Rare::kLeft);
  }
  for (int i = before.status().nodes_changes_size(); i < job.status().nodes_changes_size(); ++i) {
    if (NamesStandIn(job.status().nodes_changes(i).reason())) world_->Count(Rare::kLeavesStandIn);
  }
  for (int i = before.status().replacements_size(); i < job.status().replacements_size(); ++i) {
    if (NamesStandIn(job.status().replacements(i).reason())) world_->Count(Rare::kLeavesStandIn);
  }
  bool begins = false;
  for (int n = 0; n < job.status().nodes_size(); ++n) {
    const bool joined = n < before.status().nodes_size() && before.status().nodes(n).joins();
    if (job.status().nodes(n).joins() && !joined) begins = true;
  }
  if (begins) world_->Count(Rare::kJoinerBegins);
  const bool is_step = changes.size() != before.record().view_changes_size() || begins ||
                       job.view_proposed() != before.view_proposed() ||
                       job.view_told() != before.view_told();
  if (!is_step || (world_->plan(id).drops_lost && !before.training())) return;
  MaybeDieAtSave(Rare::kRestartAtChange);
  if (world_->plan(id).drops_lost) return world_->operators().OnRing(id);
  world_->operators().OnChange(job);
}

void SimCoordinator::NoteLosses(const proto::StoredJob& before, const proto::StoredJob& job) {
  const uint32_t id = job.record().job_id();
  RingChecker* const checker = world_->ring_checker(id);
  if (checker == nullptr) return;
  bool some_are_dropped = false;
  for (int n = 0; n < before.status().nodes_size(); ++n) {
    const proto::JobNodeStatus& was = before.status().nodes(n);
    if (was.absent() || !job.status().nodes(n).absent()) continue;
    some_are_dropped = true;
    world_->Count(Rare::kDropped);
    checker->OnDropped(was.node());
    if (world_->causes().MayDrop(id, was.node(), was.daemon())) continue;
    world_->Fail(absl::StrFormat("only nodes that are gone are left out: job %d node %d (%s)", id,
                                 was.node(), was.daemon()));
  }
  const uint32_t decided =
      std::max(before.record().view().number(), before.ring().change().number());
  const bool was_asking = before.view_proposed() > decided;
  if (some_are_dropped && was_asking) world_->Count(Rare::kRingAgain);
  if (job.ring().change().number() == before.ring().change().number()) return;
  world_->Count(Rare::kRingFormed);
  if (job.ring().some_lack()) world_->Count(Rare::kRingLacks);
  if (job.ring().is_over()) world_->Count(Rare::kRingIsOver);
  checker->OnRingFormed(job.ring());
}

// Between saving and telling.
void SimCoordinator::MaybeDieAtSave(Rare rare) {
  // A coordinator that dies repeatedly never waits long enough to give a daemon up.
  const bool is_elastic = world_->scenario().jobs[0].changes_nodes();
  if (dies_ || (is_elastic && deaths_at_save_ >= kDeathsAtSaveMax) || !world_->Takes(rare)) return;
  ++deaths_at_save_;
  dies_ = stands_still_ = true;
  world_->network().After(absl::ZeroDuration(), [this] {
    if (dies_) Restart(world_->random().Between(absl::ZeroDuration(), kDownMax));
  });
}

absl::Status SimCoordinator::PersistDraining(const std::vector<std::string>& daemons) {
  if (!dies_) draining_ = daemons;
  return absl::OkStatus();
}

absl::Status SimCoordinator::Drain(const std::string& daemon, bool undo) {
  if (core_ == nullptr || stands_still_) return absl::UnavailableError("nobody answers");
  proto::DrainRequest request;
  request.set_daemon(daemon);
  request.set_action(undo ? proto::DrainRequest::UNDO : proto::DrainRequest::DRAIN);
  return core_->Drain(request, world_->network().Now()).status();
}

// Saved jobs, and the places of their shards.

namespace {

std::vector<Causes::Home> HomesOf(const proto::StoredJob& job) {
  std::vector<Causes::Home> homes;
  const auto& generations = job.record().placement().shard_generations();
  for (int s = 0; s < job.status().shards_size(); ++s) {
    const proto::JobShardStatus& shard = job.status().shards(s);
    // A shard without chunks belongs to its server only while the server has others of the job.
    homes.push_back({.first = shard.chunks() > 0 ? shard.daemon() : "",
                     .second = shard.backup(),
                     .is_partial = shard.backup_is_partial(),
                     .generation = s < generations.size() ? generations[s] : 0,
                     .next = shard.next_backup(),
                     .next_generation = shard.next_generation(),
                     .replaces_first = shard.replaces_primary()});
  }
  return homes;
}

}  // namespace

void SimCoordinator::NoteNext(const Causes::Home& was, const Causes::Home& is) {
  if (!is.next.empty() && was.next.empty()) {
    world_->Count(Rare::kNextBackup);
    DisturbMove({is.first, is.second, is.next}, world_);
  }
  const bool is_taken = is.generation == was.next_generation && is.second == was.next;
  if (!was.next.empty() && is.next.empty() && !is_taken) world_->Count(Rare::kNextBackupIsVoid);
}

absl::Status SimCoordinator::Persist(const proto::StoredJob& job) {
  if (dies_) return absl::OkStatus();
  const uint32_t id = job.record().job_id();
  const std::vector<Causes::Home> before = HomesOf(stored_[id]), now = HomesOf(job);
  const bool moves = !before.empty() && before[0].generation > 0 && before != now;
  for (size_t s = 0; moves && s < now.size(); ++s) {
    const bool is_whole_now = before[s].is_partial && !now[s].is_partial && !now[s].second.empty();
    if (is_whole_now) world_->Count(Rare::kNewCopyWhole);
    NoteNext(before[s], now[s]);
  }
  if (world_->plan(id).changes_nodes()) world_->views().OnSaved(job);
  const proto::StoredJob saved = std::exchange(stored_[id], job);
  checker_.OnSaved(job);
  next_job_ = std::max(next_job_, id + 1);
  if (job.training() && job.record().job().replicas() > 0) {
    const std::string wrong = world_->causes().OnHomes(id, now);
    if (!wrong.empty()) world_->Fail("a copy is given up by what was done to it: " + wrong);
  }
  if (moves) MaybeDieAtSave(Rare::kRestartAtSave);
  if (world_->plan(id).changes_nodes()) NoteChanges(saved, job);
  return absl::OkStatus();
}

}  // namespace strata::sim
