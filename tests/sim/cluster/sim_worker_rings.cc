// The part of SimWorker that sees to all-reduces that go on without nodes that have died.
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/sim/cluster/sim_worker.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

// Beyond what a node is waited for, now and then.
constexpr absl::Duration kShortMax = absl::Seconds(5), kLongMax = absl::Seconds(60);
// Less than what a node is waited for that is asked to stop.
constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr absl::Duration kWordLate = absl::Seconds(5);

}  // namespace

void SimWorker::MaybeTwice(std::function<void()> word) {
  word();
  if (!world_->Takes(Rare::kWordTwice)) return;
  const bool at_once = world_->random().Chance(0.3);
  After(at_once ? absl::ZeroDuration() : world_->random().Between(absl::ZeroDuration(), kWordLate),
        std::move(word));
}

void SimWorker::StopRing(const proto::StopRing& stop) {
  const auto found = playing_.find(stop.job_id());
  if (found == playing_.end()) return;
  if (found->second.node_process != nullptr) {
    return found->second.node_process->StopRing(stop.number());
  }
  proto::RingStopped stopped;
  stopped.set_node(found->second.node);
  stopped.set_number(stop.number());
  stopped.set_error(absl::StrFormat("node %d (%s) does not train yet", found->second.node, name()));
  SayRingStopped(stop.job_id(), found->second.started, stopped);
}

void SimWorker::FormRing(const proto::FormRing& forming) {
  const auto found = playing_.find(forming.job_id());
  if (found == playing_.end() || found->second.node_process == nullptr) return;
  found->second.node_process->FormRing(forming);
}

void SimWorker::SayRingStopped(uint32_t job, uint32_t incarnation, proto::RingStopped stopped) {
  stopped.set_job_id(job);
  stopped.set_incarnation(incarnation);
  proto::DaemonMessage message;
  *message.mutable_ring_stopped() = std::move(stopped);
  Say(std::move(message));
}

void SimWorker::FreezeNodes() {
  for (const auto& [job, playing] : playing_) {
    if (!world_->plan(job).drops_lost || playing.node_process == nullptr) continue;
    world_->Count(Rare::kFrozenNode);
    const absl::Duration most = world_->random().Chance(0.5) ? kShortMax : kLongMax;
    const absl::Duration pause = world_->random().Between(absl::ZeroDuration(), most);
    if (pause >= kPatience) world_->causes().OnFrozen(job, playing.node);
    world_->Log(25, [&, id = job] {
      return absl::StrFormat("%s: job %d's processes stand still", name(), id);
    });
    playing.node_process->Freeze(pause);
  }
}

}  // namespace strata::sim
