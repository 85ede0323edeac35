#include "compare/virtual_time/virtual_shard.h"

#include <algorithm>
#include <utility>

#include "kernels/kernels.h"

namespace strata::compare {

using transport::Event;

VirtualShard::VirtualShard(transport::SimClock* clock, transport::SimNetwork* network,
                           uint32_t host, const proto::Servers& servers)
    : clock_(clock),
      seconds_per_byte_(servers.cpu_ns_per_byte() / 1e9),
      per_frame_(absl::Microseconds(servers.cpu_us_per_frame())),
      core_(kernels::Cpu()),
      endpoint_(network, VirtualEndpoint(host, [this] { OnReady(); })) {}

absl::Status VirtualShard::Start(const proto::JobRecord& record, ShardId own_shard,
                                 const std::string& address) {
  if (absl::Status status = core_.Install(record, own_shard); !status.ok()) return status;
  return endpoint_.Listen(address).status();
}

void VirtualShard::OnReady() {
  events_.clear();
  endpoint_.Poll(absl::InfiniteDuration(), &events_);
  for (Event& event : events_) {
    absl::Duration cost;
    if (event.kind == Event::Kind::kFrame) {
      cost = per_frame_ + absl::Seconds(event.frame.payload.size() * seconds_per_byte_);
    }
    free_ = std::max(free_, clock_->Now()) + cost;
    clock_->At(free_, [this, event = std::move(event)] { OnEvent(event); });
  }
}

void VirtualShard::OnEvent(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kFrame:
      core_.OnFrame(event.connection, event.frame, clock_->Now(), &actions_);
      break;
    case Event::Kind::kMalformed:
      core_.OnMalformed(event.connection, &actions_);
      break;
    case Event::Kind::kDisconnected:
      core_.OnDisconnected(event.connection, event.error, clock_->Now(), &actions_);
      break;
  }
  Execute();
  WakeAtDeadline();
}

void VirtualShard::WakeAtDeadline() {
  const absl::Time at = core_.deadline();
  if (at >= wakes_at_) return;
  wakes_at_ = at;
  clock_->At(at, [this, at] {
    if (wakes_at_ == at) wakes_at_ = absl::InfiniteFuture();
    core_.OnTime(clock_->Now(), &actions_);
    Execute();
    WakeAtDeadline();
  });
}

void VirtualShard::Execute() {
  for (const server::ShardAction& action : actions_) {
    if (action.kind == server::ShardAction::Kind::kClose) {
      endpoint_.Close(action.connection);
    } else {
      // A connection that is gone is seen as such, too.
      endpoint_.Send(action.connection, action.frame).IgnoreError();
    }
  }
  actions_.clear();
}

}  // namespace strata::compare
