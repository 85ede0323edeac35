#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/world.h"

namespace strata::sim {
namespace {

constexpr absl::Duration kCrashCheck = absl::Milliseconds(3);
constexpr uint32_t kRestartsMax = 4;

proto::Layout LayoutOf(const JobPlan& plan) {
  proto::Layout layout;
  layout.set_elements(plan.elements());
  // Two tensors with other multipliers, so that runs matter; the ledger needs those of 1.
  const uint64_t first = plan.has_ledger() ? plan.elements() : plan.elements() * 2 / 3;
  for (uint64_t offset = 0; offset < plan.elements(); offset += first) {
    proto::Segment* segment = layout.add_segments();
    const uint64_t count = std::min(first, plan.elements() - offset);
    segment->set_name(absl::StrFormat("w%d", offset));
    segment->add_shape(count);
    segment->set_offset(offset);
    segment->set_lr_multiplier(offset == 0 ? 1 : 0.5f);
    segment->set_decay_multiplier(offset == 0 ? 1 : 0);
  }
  return layout;
}

}  // namespace

SimWorker::SimWorker(World* world, const std::string& name, uint32_t slots)
    : world_(world), name_(name), host_(world->NextHost()) {
  proto::Register registration;
  registration.set_role(proto::WORKER);
  registration.set_name(name);
  registration.set_address(name);
  registration.set_slots(slots);
  world->coordinator().Join(std::move(registration),
                            [this](const proto::CoordinatorMessage& m) { OnMessage(m); });
}

void SimWorker::OnMessage(const proto::CoordinatorMessage& message) {
  if (message.has_start_node()) {
    SayReady(message.start_node());
  } else if (message.has_run_node()) {
    const proto::JobRecord& record = message.run_node().record();
    playing_[record.job_id()].record = record;
    StartProcess(record.job_id());
    MaybeCrash(record.job_id());
  } else if (message.has_stop_node()) {
    Playing& playing = playing_[message.stop_node().job_id()];
    playing.stopped = true;
    Bury(&playing);
  }
}

void SimWorker::SayReady(const proto::StartNode& start) {
  const uint32_t job = start.record().job_id();
  playing_[job].node = start.node();
  playing_[job].incarnation = start.incarnation();
  proto::DaemonMessage message;
  proto::NodeReady* ready = message.mutable_node_ready();
  ready->set_job_id(job);
  *ready->mutable_layout() = LayoutOf(world_->plan(job));
  ready->set_samples_per_epoch(1000);
  ready->set_total_steps(world_->plan(job).clocks);
  ready->set_run_dir("/runs");
  // The ranks take their time to start.
  world_->network().After(world_->random().Between(absl::ZeroDuration(), absl::Milliseconds(20)),
                          [this, message] { world_->coordinator().Say(name_, message); });
}

void SimWorker::StartProcess(uint32_t job) {
  Playing& playing = playing_[job];
  SimNode::Options options;
  options.host = host_;
  options.node = playing.node;
  options.incarnation = playing.incarnation;
  options.variant = world_->scenario().other_bits ? playing.incarnation - 1 : 0;
  options.on_finished = [this, job] {
    proto::DaemonMessage message;
    message.mutable_node_finished()->set_job_id(job);
    world_->coordinator().Say(name_, std::move(message));
  };
  options.on_failed = [this, job](const std::string& reason) {
    proto::DaemonMessage message;
    message.mutable_node_failed()->set_job_id(job);
    message.mutable_node_failed()->set_reason(reason);
    world_->coordinator().Say(name_, std::move(message));
  };
  playing.node_process = std::make_unique<SimNode>(world_, playing.record, options);
}

void SimWorker::Bury(Playing* playing) {
  if (playing->node_process) world_->Keep(std::move(playing->node_process));
}

// The process goes on for a while beside the one that takes its place.
void SimWorker::LeaveBehind(Playing* playing) {
  playing->node_process->Replace();
  SimNode* const node = left_behind_.emplace_back(std::move(playing->node_process)).get();
  world_->network().After(
      world_->random().Between(absl::ZeroDuration(), absl::Seconds(5)), [this, node] {
        const auto found = std::find_if(left_behind_.begin(), left_behind_.end(),
                                        [node](const auto& other) { return other.get() == node; });
        world_->Keep(std::move(*found));
        left_behind_.erase(found);
      });
}

void SimWorker::MaybeCrash(uint32_t job) {
  const double chance = world_->scenario().rare[static_cast<size_t>(Rare::kNodeRestart)];
  if (chance == 0 || playing_[job].incarnation > kRestartsMax) return;
  absl::Duration alive = kCrashCheck;
  while (!world_->random().Chance(chance)) alive += kCrashCheck;
  world_->network().After(alive, [this, job] {
    Playing& playing = playing_[job];
    if (playing.node_process == nullptr || playing.node_process->finished()) return;
    world_->Count(Rare::kNodeRestart);
    const bool dies = world_->random().Chance(0.5);
    world_->Log(8, [&] {
      return absl::StrFormat("%s: job %d %s", name_, job, dies ? "crashes" : "is replaced");
    });
    dies ? Bury(&playing) : LeaveBehind(&playing);
    const absl::Duration down =
        world_->random().Between(absl::ZeroDuration(), absl::Milliseconds(500));
    world_->network().After(down, [this, job] {
      if (playing_[job].stopped) return;
      ++playing_[job].incarnation;
      StartProcess(job);
      MaybeCrash(job);
    });
  });
}

}  // namespace strata::sim
