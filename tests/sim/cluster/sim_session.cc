#include "tests/sim/cluster/sim_session.h"

#include <utility>

#include "common/job/job.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
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
