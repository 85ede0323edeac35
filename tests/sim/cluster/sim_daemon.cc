#include "tests/sim/cluster/sim_daemon.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

namespace {

constexpr absl::Duration kNoticedMax = absl::Seconds(1);
constexpr absl::Duration kDownMax = absl::Seconds(8);
// Sometimes longer than a coordinator waits after its restart.
constexpr double kStaysAway = 0.1;
constexpr absl::Duration kAwayMax = absl::Seconds(60);
constexpr absl::Duration kDaemonTryAgain = absl::Seconds(1);

}  // namespace

SimDaemon::SimDaemon(World* world, proto::Role role, const std::string& name)
    : world_(world), host_(world->NextHost()), role_(role), name_(name) {}

std::string SimDaemon::Describe() const {
  return absl::StrCat(role_ == proto::WORKER ? "worker " : "server ", name_);
}

void SimDaemon::Start() {
  ++process_;
  proto::Register registration;
  registration.set_role(role_);
  registration.set_name(name_);
  registration.set_address(name_);
  Begin(&registration);
  SimSession::Callbacks callbacks;
  callbacks.on_message = [this](const proto::CoordinatorMessage& m) { OnMessage(m); };
  callbacks.running_jobs = [this] {
    OnDial();
    return RunningJobs();
  };
  callbacks.heartbeat = [this] { return MakeHeartbeat(); };
  callbacks.on_rejected = [this](const std::string& reason) { OnRejected(reason); };
  session_ = std::make_unique<SimSession>(world_, std::move(registration), std::move(callbacks));
}

void SimDaemon::End(absl::Duration noticed_after) {
  session_->Die(noticed_after);
  session_.reset();
  Clear();
}

void SimDaemon::After(absl::Duration delay, std::function<void()> what) {
  world_->network().After(delay, [this, process = process_, what = std::move(what)] {
    if (session_ != nullptr && process == process_) what();
  });
}

void SimDaemon::Die() {
  world_->Count(role_ == proto::WORKER ? Rare::kLostWorker : Rare::kLostServer);
  world_->causes().OnLost(Describe());
  world_->Log(18, [&] { return absl::StrCat(Describe(), "'s process dies"); });
  const bool host_dies = world_->random().Chance(0.5);
  End(host_dies ? absl::InfiniteDuration()
                : world_->random().Between(absl::ZeroDuration(), kNoticedMax));
}

void SimDaemon::LoseForGood() {
  if (session_ == nullptr) return;
  world_->Count(Rare::kGoneForGood);
  is_gone_ = true;
  Die();
}

bool SimDaemon::Hold() {
  if (session_ == nullptr || session_->is_held()) return false;
  // Together with a break of its connection even a short pause is too long.
  world_->causes().OnLost(Describe());
  session_->Hold();
  return true;
}

void SimDaemon::Stop(absl::Duration pause) {
  if (!Hold()) return;
  world_->Count(Rare::kStoppedServer);
  world_->Log(20, [&] { return absl::StrCat(Describe(), " is stopped"); });
  StandStill(true);
  After(pause, [this] {
    world_->Log(21, [&] { return absl::StrCat(Describe(), " goes on"); });
    StandStill(false);
    After(world_->random().Between(absl::ZeroDuration(), kNoticedMax),
          [this] { session_->LetGo(); });
  });
}

void SimDaemon::CutOff(absl::Duration pause) {
  if (!Hold()) return;
  world_->Count(Rare::kCutOffServer);
  world_->Log(22, [&] { return absl::StrCat(Describe(), " and the coordinator are apart"); });
  After(pause, [this] { session_->LetGo(); });
}

void SimDaemon::Lose() {
  if (session_ == nullptr) return;
  Die();
  const bool stays_away = world_->random().Chance(kStaysAway);
  world_->network().After(
      world_->random().Between(absl::ZeroDuration(), stays_away ? kAwayMax : kDownMax),
      [this] { Start(); });
}

// This can happen only if the former process died unnoticed. The process exits, and its host
// restarts it.
void SimDaemon::OnRejected(const std::string& reason) {
  if (!absl::StrContains(reason, " is in use by a live daemon") ||
      !world_->causes().was_lost(Describe())) {
    world_->Fail(absl::StrCat("daemons are let in: ", Describe(), ": ", reason));
  }
  After(kDaemonTryAgain, [this] {
    End(absl::ZeroDuration());
    Start();
  });
}

namespace {

constexpr absl::Duration kBackoffMin = absl::Milliseconds(50);
constexpr absl::Duration kBackoffMax = absl::Milliseconds(300);

}  // namespace

SimSession::SimSession(World* world, proto::Register registration, Callbacks callbacks)
    : world_(world),
      callbacks_(std::move(callbacks)),
      registration_(std::move(registration)),
      timers_(&world->network()) {
  registration_.set_protocol_version(kProtocolVersion);
  registration_.set_daemon_id(world->NextDaemonId());
  Dial();
}

void SimSession::Die(absl::Duration noticed_after) {
  timers_.Cancel();
  if (line_ != nullptr) world_->coordinator().HangUp(std::move(line_), noticed_after);
}

void SimSession::LetGo() {
  held_ = false;
  for (const auto& what : std::exchange(waiting_, {})) what();
  Flush();
}

void SimSession::Dial() {
  if (held_) return waiting_.push_back([this] { Dial(); });
  line_ = world_->coordinator().Connect(this);
  if (line_ == nullptr) {
    timers_.After(world_->random().Between(kBackoffMin, kBackoffMax), [this] { Dial(); });
    return;
  }
  registration_.set_attempt(registration_.attempt() + 1);
  proto::DaemonMessage message;
  *message.mutable_register_() = registration_;
  for (uint32_t job : callbacks_.running_jobs()) message.mutable_register_()->add_running_jobs(job);
  world_->coordinator().Say(line_, std::move(message));
}

void SimSession::OnMessage(const proto::CoordinatorMessage& message) {
  if (held_) return waiting_.push_back([this, message] { OnMessage(message); });
  if (message.has_registered()) {
    registered_ = true;
    Flush();
  } else if (message.has_rejected()) {
    rejected_ = true;
    callbacks_.on_rejected(message.rejected().reason());
  } else if (!registered_) {
    world_->Fail("Registered comes first: " + message.ShortDebugString().substr(0, 80));
  } else {
    callbacks_.on_message(message);
  }
}

void SimSession::OnBroken() {
  if (held_) return waiting_.push_back([this] { OnBroken(); });
  line_ = nullptr;
  registered_ = false;
  outbox_.OnBroken(world_->network().Now());
  if (!rejected_) Dial();
}

void SimSession::Say(proto::DaemonMessage message) {
  if (!outbox_.Add(std::move(message))) world_->Fail("the outbox is bounded, and never full here");
  Flush();
}

void SimSession::Flush() {
  if (!registered_ || held_) return;
  while (const proto::DaemonMessage* next = outbox_.Next()) {
    world_->coordinator().Say(line_, *next);
    outbox_.MarkSent(world_->network().Now());
  }
}

}  // namespace strata::sim
