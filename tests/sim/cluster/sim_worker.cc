#include "tests/sim/cluster/sim_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/program_optimizer.h"
#include "tests/sim/check/view_checker.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/sim_server.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

namespace {

constexpr int kRingPort = 5000;  // and the job's number
constexpr absl::Duration kCrashCheck = absl::Milliseconds(3);
constexpr uint32_t kRestartsMax = 4;
constexpr absl::Duration kIdleCheck = absl::Milliseconds(100);

proto::Layout LayoutOf(const JobPlan& plan) {
  proto::Layout layout;
  layout.set_elements(plan.elements());
  // Two tensors with different multipliers, so that runs of equal ones matter; the ledger needs
  // multipliers of 1.
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

SimWorker::SimWorker(World* world, const std::string& name, uint32_t slots,
                     absl::Duration joins_after, bool stands_in)
    : SimDaemon(world, proto::WORKER, name), slots_(slots), stands_in_(stands_in) {
  if (joins_after == absl::ZeroDuration()) {
    Start();
    return;
  }
  world->network().After(joins_after, [this] {
    world_->Count(Rare::kLateWorker);
    Start();
  });
}

bool SimWorker::Plays(uint32_t job, uint32_t node) const {
  const auto found = playing_.find(job);
  return found != playing_.end() && found->second.node == node;
}

void SimWorker::Begin(proto::Register* registration) {
  registration->set_slots(slots_);
  registration->set_stands_in(stands_in_);
}

void SimWorker::Clear() {
  playing_.clear();
  over_.clear();
  left_behind_.clear();
}

std::vector<uint32_t> SimWorker::RunningJobs() const {
  std::vector<uint32_t> jobs;
  for (const auto& [job, playing] : playing_) jobs.push_back(job);
  return jobs;
}

void SimWorker::OnMessage(const proto::CoordinatorMessage& message) {
  if (message.has_start_node()) {
    StartNode(message.start_node());
  } else if (message.has_run_node()) {
    RunNode(message.run_node().record());
  } else if (message.has_move_shard()) {
    Move(message.move_shard());
  } else if (message.has_stop_node()) {
    Forget(message.stop_node().job_id());
  } else if (message.has_try_peers()) {
    TryPeers(message.try_peers());
  } else if (message.has_measure_link()) {
    MeasureLink(message.measure_link().record().job_id());
  } else if (message.has_propose_view()) {
    ProposeView(message.propose_view());
  } else if (message.has_change_view()) {
    ChangeView(message.change_view());
  } else if (message.has_stop_ring()) {
    MaybeTwice([this, stop = message.stop_ring()] { StopRing(stop); });
  } else if (message.has_form_ring()) {
    MaybeTwice([this, forming = message.form_ring()] { FormRing(forming); });
  }
}

void SimWorker::ProposeView(const proto::ProposeView& propose) {
  const auto found = playing_.find(propose.job_id());
  if (found == playing_.end() || found->second.node_process == nullptr) return;
  found->second.node_process->ProposeView(propose.number());
}

void SimWorker::ChangeView(const proto::ViewChange& change) {
  const auto found = playing_.find(change.job_id());
  if (found == playing_.end() || found->second.node_process == nullptr) return;
  found->second.node_process->ChangeView(change);
}

void SimWorker::StartNode(const proto::StartNode& start) {
  const uint32_t job = start.record().job_id();
  if (over_.count({job, start.node(), start.incarnation()}) > 0) return;
  if (const auto found = playing_.find(job); found != playing_.end()) {
    const Playing& now = found->second;
    const bool is_it = now.node == start.node() && now.started >= start.incarnation();
    if (is_it && now.said_ready) SayReady(job);
    if (is_it) return;
    Forget(job);
  }
  uint32_t used = 0;
  for (const auto& [id, playing] : playing_) used += playing.ranks;
  Playing& playing = playing_[job];
  playing.node = start.node();
  playing.ranks = start.record().view().nodes(static_cast<int>(start.node())).ranks();
  playing.incarnation = playing.started = start.incarnation();
  if (stands_in_) world_->Count(Rare::kStandsIn);
  if (used + playing.ranks > slots_) {
    world_->Fail(absl::StrFormat("slots are given once: job %d gets %d of %s's %d, %d are in use",
                                 job, playing.ranks, name(), slots_, used));
  }
  // The ranks take a while to start.
  const bool slow = world_->Takes(Rare::kSlowStart);
  After(world_->random().Between(absl::ZeroDuration(),
                                 slow ? absl::Seconds(8) : absl::Milliseconds(20)),
        [this, job, node = start.node(), started = start.incarnation()] {
          const auto found = playing_.find(job);
          const bool is_it = found != playing_.end() && found->second.node == node &&
                             found->second.started == started;
          if (is_it) SayReady(job);
        });
}

void SimWorker::SayReady(uint32_t job) {
  playing_[job].said_ready = true;
  proto::DaemonMessage message;
  proto::NodeReady* ready = message.mutable_node_ready();
  ready->set_job_id(job);
  ready->set_incarnation(playing_[job].started);
  ready->set_can_resume(world_->plan(job).is_elastic());
  *ready->mutable_layout() = LayoutOf(world_->plan(job));
  ready->set_samples_per_epoch(1000);
  ready->set_total_steps(world_->plan(job).clocks);
  ready->set_run_dir("/runs");
  ready->set_takes_first_weights(world_->plan(job).takes_first_weights);
  ready->set_says_rates(world_->plan(job).says_rates);
  if (world_->plan(job).names_optimizer()) {
    *ready->mutable_optimizer() = *ParseOptimizer(world_->plan(job).optimizer);
  }
  if (world_->plan(job).is_ring()) {
    ready->set_endpoint(absl::StrFormat("tcp://%s:%d", name(), kRingPort + job));
  }
  Say(std::move(message));
}

// As often as it is told.
void SimWorker::MeasureLink(uint32_t job) {
  After(world_->random().Between(absl::Milliseconds(1), absl::Milliseconds(50)), [this, job] {
    if (playing_.count(job) == 0) return;
    proto::DaemonMessage message;
    message.mutable_link_measured()->set_job_id(job);
    message.mutable_link_measured()->set_latency_us(1 + 1000 * world_->random().Fraction());
    message.mutable_link_measured()->set_bytes_per_s(1e6 + 1e9 * world_->random().Fraction());
    Say(std::move(message));
  });
}

void SimWorker::RunNode(const proto::JobRecord& record) {
  const auto found = playing_.find(record.job_id());
  if (found == playing_.end() || found->second.record.has_placement()) return;
  if (record.has_ring()) world_->OnPlaced(record);
  if (world_->checker(record.job_id()) == nullptr) {
    return world_->Fail(absl::StrFormat("no job trains without shards: job %d", record.job_id()));
  }
  found->second.record = record;
  if (world_->plan(record.job_id()).changes_nodes()) {
    world_->views().OnRun(found->second.node, found->second.incarnation, record);
  }
  StartProcess(record.job_id());
  MaybeCrash(record.job_id());
}

// Processes that replace this one are told, too: they begin with the earlier record.
void SimWorker::Move(const proto::MoveShard& move) {
  const auto found = playing_.find(move.job_id());
  if (found == playing_.end() || !found->second.record.has_placement()) return;
  found->second.moves[move.shard()] = move;
  if (found->second.node_process != nullptr) found->second.node_process->MoveShard(move);
}

void SimWorker::TryPeers(proto::TryPeers peers) {
  if (world_->Takes(Rare::kNoAnswer)) return world_->causes().OnNoAnswer(name());
  After(world_->random().Between(absl::Milliseconds(1), absl::Milliseconds(50)), [this, peers] {
    proto::DaemonMessage message;
    for (proto::PeerReach peer : peers.peers()) {
      const auto& servers = world_->servers();
      const auto server = std::find_if(servers.begin(), servers.end(), [&](const auto& one) {
        return one->Listens(peer.address());
      });
      if (server == servers.end()) {
        peer.set_error("connection refused");
      } else if (world_->operators().IsKeptFrom(name(), (*server)->name())) {
        peer.set_error("no route to host");
      }
      *message.mutable_peers_tried()->add_peers() = peer;
    }
    Say(std::move(message));
  });
}

void SimWorker::StartProcess(uint32_t job) {
  Playing& playing = playing_[job];
  SimNode::Options options;
  options.host = host_;
  options.node = playing.node;
  options.incarnation = playing.incarnation;
  options.variant = world_->scenario().other_bits ? playing.incarnation - 1 : 0;
  options.on_promised = [this, job, node = playing.node, started = playing.started](
                            uint32_t number, uint64_t from_clock) {
    proto::DaemonMessage message;
    proto::ViewPromised* const promised = message.mutable_view_promised();
    promised->set_job_id(job);
    promised->set_node(node);
    promised->set_incarnation(started);
    promised->set_number(number);
    promised->set_from_clock(from_clock);
    Say(std::move(message));
  };
  options.on_ring_stopped = [this, job,
                             started = playing.started](const proto::RingStopped& stopped) {
    MaybeTwice([this, job, started, stopped] { SayRingStopped(job, started, stopped); });
  };
  options.on_finished = [this, job](uint64_t steps) {
    proto::DaemonMessage message;
    message.mutable_node_finished()->set_job_id(job);
    message.mutable_node_finished()->set_incarnation(playing_[job].started);
    message.mutable_node_finished()->set_steps_made(steps);
    Say(std::move(message));
    Forget(job);
  };
  options.on_failed = [this, job](const std::string& reason) {
    proto::DaemonMessage message;
    message.mutable_node_failed()->set_job_id(job);
    message.mutable_node_failed()->set_incarnation(playing_[job].started);
    message.mutable_node_failed()->set_reason(reason);
    Say(std::move(message));
    Forget(job);
  };
  playing.node_process = std::make_unique<SimNode>(world_, playing.record, options);
  for (const auto& [shard, move] : playing.moves) playing.node_process->MoveShard(move);
}

void SimWorker::Forget(uint32_t job) {
  const auto found = playing_.find(job);
  if (found == playing_.end()) return;
  Bury(&found->second);
  over_.emplace(job, found->second.node, found->second.started);
  playing_.erase(found);
}

void SimWorker::KillNodes() {
  std::vector<uint32_t> jobs;
  for (const auto& [job, playing] : playing_) {
    const JobPlan& plan = world_->plan(job);
    if (plan.replaces || plan.drops_lost) jobs.push_back(job);
  }
  for (const uint32_t job : jobs) {
    world_->Count(Rare::kNodeDies);
    world_->causes().OnNodeDeath(job, playing_[job].node);
    world_->Log(23, [&] { return absl::StrFormat("%s: job %d's processes end", name(), job); });
    proto::DaemonMessage message;
    message.mutable_node_failed()->set_job_id(job);
    message.mutable_node_failed()->set_incarnation(playing_[job].started);
    message.mutable_node_failed()->set_reason("killed");
    message.mutable_node_failed()->set_is_death(true);
    Say(std::move(message));
    Forget(job);
  }
}

void SimWorker::Leave(absl::Duration notice) {
  if (!is_there()) return;
  world_->Count(Rare::kLeaving);
  world_->Log(24, [&] { return absl::StrCat(name(), " is about to end"); });
  proto::DaemonMessage message;
  message.mutable_leaving();
  Say(std::move(message));
  EndOnceIdle(world_->network().Now() + notice);
}

void SimWorker::EndOnceIdle(absl::Time at_latest) {
  if (playing_.empty() || world_->network().Now() >= at_latest) return Lose();
  After(kIdleCheck, [this, at_latest] { EndOnceIdle(at_latest); });
}

void SimWorker::Bury(Playing* playing) {
  if (playing->node_process) world_->Keep(std::move(playing->node_process));
}

// The process continues for a while beside the one that takes its place.
void SimWorker::LeaveBehind(Playing* playing) {
  playing->node_process->Replace();
  SimNode* const node = left_behind_.emplace_back(std::move(playing->node_process)).get();
  After(world_->random().Between(absl::ZeroDuration(), absl::Seconds(5)), [this, node] {
    const auto found = std::find_if(left_behind_.begin(), left_behind_.end(),
                                    [node](const auto& other) { return other.get() == node; });
    world_->Keep(std::move(*found));
    left_behind_.erase(found);
  });
}

void SimWorker::MaybeCrash(uint32_t job) {
  const double chance = world_->scenario().rare[static_cast<size_t>(Rare::kNodeRestart)];
  // The others could not continue, or the coordinator restarts it.
  if (world_->plan(job).is_ring() || world_->plan(job).is_elastic()) return;
  if (chance == 0 || playing_[job].incarnation > kRestartsMax) return;
  absl::Duration alive = kCrashCheck;
  while (!world_->random().Chance(chance)) alive += kCrashCheck;
  After(alive, [this, job] {
    const auto found = playing_.find(job);
    if (found == playing_.end()) return;
    Playing& playing = found->second;
    world_->Count(Rare::kNodeRestart);
    const bool dies = world_->random().Chance(0.5);
    world_->Log(8, [&] {
      return absl::StrFormat("%s: job %d %s", name(), job, dies ? "crashes" : "is replaced");
    });
    dies ? Bury(&playing) : LeaveBehind(&playing);
    After(world_->random().Between(absl::ZeroDuration(), absl::Milliseconds(500)), [this, job] {
      if (playing_.count(job) == 0) return;
      ++playing_[job].incarnation;
      StartProcess(job);
      MaybeCrash(job);
    });
  });
}

// All-reduces that continue without nodes that have died.

namespace {

// Sometimes longer than the wait for a node.
constexpr absl::Duration kShortMax = absl::Seconds(5), kLongMax = absl::Seconds(60);
// Shorter than the wait for a node that is asked to stop.
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
