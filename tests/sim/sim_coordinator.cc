#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "tests/sim/world.h"

namespace strata::sim {
namespace {

constexpr absl::Duration kBeat = absl::Milliseconds(450);
constexpr absl::Duration kDelayMin = absl::Microseconds(50);
constexpr absl::Duration kDelayMax = absl::Milliseconds(5);

}  // namespace

SimCoordinator::SimCoordinator(World* world)
    : world_(world), core_(server::CoordinatorCore::Options(), "sim", this) {
  core_.Restore({}, 1, world_->network().Now());
  world_->network().After(kBeat, [this] { Beat(); });
}

void SimCoordinator::Beat() {
  const absl::Time now = world_->network().Now();
  proto::DaemonMessage message;
  message.mutable_heartbeat();
  for (const auto& [name, daemon] : daemons_) core_.OnMessage(daemon.session, message, now);
  core_.Tick(now);
  world_->network().After(kBeat, [this] { Beat(); });
}

absl::Duration SimCoordinator::InOrder(absl::Time* last) {
  const absl::Time now = world_->network().Now();
  *last = std::max(*last, now + world_->random().Between(kDelayMin, kDelayMax));
  return *last - now;
}

void SimCoordinator::Join(proto::Register registration, Receive receive) {
  const std::string name = registration.name();
  const server::SessionId session(daemons_.size() + 1);
  daemons_[name] = {.session = session, .receive = std::move(receive)};
  names_[session] = name;
  registration.set_protocol_version(kProtocolVersion);
  registration.set_daemon_id(session.value());
  registration.set_attempt(1);
  proto::DaemonMessage message;
  *message.mutable_register_() = std::move(registration);
  core_.OnMessage(session, message, world_->network().Now());
}

void SimCoordinator::Say(const std::string& name, proto::DaemonMessage message) {
  Daemon& daemon = daemons_.at(name);
  world_->network().After(InOrder(&daemon.up_until), [this, &daemon, name, message] {
    world_->Log(message.message_case(), [&] {
      return absl::StrFormat("%s -> coordinator  %s", name,
                             message.ShortDebugString().substr(0, 80));
    });
    core_.OnMessage(daemon.session, message, world_->network().Now());
  });
}

void SimCoordinator::Send(server::SessionId session, const proto::CoordinatorMessage& message) {
  Daemon& daemon = daemons_.at(names_.at(session));
  const std::string name = names_.at(session);
  world_->network().After(InOrder(&daemon.down_until), [this, &daemon, name, message] {
    world_->Log(100 + message.message_case(), [&] {
      return absl::StrFormat("coordinator -> %s  %s", name,
                             message.ShortDebugString().substr(0, 80));
    });
    daemon.receive(message);
  });
}

void SimCoordinator::Close(server::SessionId session) {
  world_->Fail("daemons stay: the coordinator closed the session of " + names_.at(session));
}

void SimCoordinator::Submit(const proto::Job& job) {
  const absl::StatusOr<JobId> id =
      core_.Submit(job, world_->random().Next(), world_->network().Now());
  if (!id.ok()) world_->Fail("jobs end well: submit: " + std::string(id.status().message()));
}

void SimCoordinator::Notify(JobId job, const proto::FollowEvent& event) {
  if (!event.has_status()) return;
  const proto::JobState state = event.status().state();
  if (state == proto::QUEUED || state == proto::RUNNING) return;
  if (!ended_.insert(job.value()).second) return;
  world_->OnEnded(job.value(), state == proto::FINISHED, event.status().reason());
}

}  // namespace strata::sim
