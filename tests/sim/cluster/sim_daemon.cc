#include "tests/sim/cluster/sim_daemon.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

constexpr absl::Duration kNoticedMax = absl::Seconds(1);
constexpr absl::Duration kDownMax = absl::Seconds(8);
// Beyond what a coordinator waits after its restart, now and then.
constexpr double kStaysAway = 0.1;
constexpr absl::Duration kAwayMax = absl::Seconds(60);
constexpr absl::Duration kTryAgain = absl::Seconds(1);

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
  callbacks.running_jobs = [this] { return RunningJobs(); };
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
  // Together with a break of its line a short while is too long.
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

// Only where the process before died unnoticed may that be. The process exits, and its host starts
// it again.
void SimDaemon::OnRejected(const std::string& reason) {
  if (!absl::StrContains(reason, " is in use by a live daemon") ||
      !world_->causes().was_lost(Describe())) {
    world_->Fail(absl::StrCat("daemons are let in: ", Describe(), ": ", reason));
  }
  After(kTryAgain, [this] {
    End(absl::ZeroDuration());
    Start();
  });
}

}  // namespace strata::sim
