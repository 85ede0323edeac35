#include "tests/sim/cluster/sim_server.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/exchange/shard_generation.h"
#include "tests/sim/check/view_checker.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

constexpr uint32_t kNoShard = 0xffffffff;
// How long a backup may keep nodes waiting.
constexpr uint32_t kPatienceMs = 1000;
// Time for the shard to have its next copy there again.
constexpr absl::Duration kRemovedLate = absl::Seconds(5);

}  // namespace

SimServer::SimServer(World* world, const std::string& name, uint32_t shards)
    : SimDaemon(world, proto::SERVER, name), ports_(shards, 0) {
  Start();
}

// The next process listens on other ports, or on the same.
void SimServer::Begin(proto::Register* registration) {
  const bool others = world_->random().Chance(0.5);
  for (size_t s = 0; s < ports_.size(); ++s) {
    shards_.push_back(std::make_unique<SimShard>(world_, absl::StrCat(name(), ".", s), name(),
                                                 host_, others ? 0 : ports_[s]));
    ports_[s] = shards_.back()->port();
    registration->add_shard_ports(ports_[s]);
  }
}

void SimServer::Clear() {
  shards_.clear();
  jobs_.clear();
  world_->views().OnServerGone(name());
}

bool SimServer::Listens(const std::string& address) const {
  return std::any_of(shards_.begin(), shards_.end(), [&](const auto& shard) {
    return address == absl::StrFormat("tcp://%s:%d", name(), shard->port());
  });
}

void SimServer::StandStill(bool stands) {
  for (auto& shard : shards_) shard->StandStill(stands);
}

void SimServer::OnMessage(const proto::CoordinatorMessage& message) {
  if (message.has_install_job()) {
    Install(message.install_job());
  } else if (message.has_move_shard()) {
    Move(message.move_shard());
  } else if (message.has_fill_next()) {
    FillNext(message.fill_next());
  } else if (message.has_install_backup()) {
    InstallBackup(message.install_backup());
  } else if (message.has_remove_shard()) {
    RemoveShard(message.remove_shard());
  } else if (message.has_remove_job()) {
    RemoveJob(message.remove_job().job_id());
  } else if (message.has_change_view()) {
    ChangeView(message.change_view());
  }
}

void SimServer::ChangeView(const proto::ViewChange& change) {
  absl::Status changed = absl::NotFoundError("the job is not here");
  for (auto& shard : shards_) {
    const absl::Status there = shard->ChangeView(change);
    if (absl::IsNotFound(there)) continue;
    changed = there;
    if (!changed.ok()) break;
  }
  if (changed.ok()) world_->views().OnInstalled(name(), change.job_id(), change.number());
  proto::DaemonMessage reply;
  proto::ViewInstalled* const installed = reply.mutable_view_installed();
  installed->set_job_id(change.job_id());
  installed->set_attempt(change.attempt());
  installed->set_number(change.number());
  if (!changed.ok()) installed->set_error(std::string(changed.message()));
  Say(std::move(reply));
}

void SimServer::NoteViews(const proto::JobRecord& record) {
  uint32_t number = record.view().number();
  for (const proto::ViewChange& change : record.view_changes()) {
    number = std::max(number, change.number());
  }
  world_->views().OnInstalled(name(), record.job_id(), number);
}

void SimServer::RemoveJob(uint32_t job) {
  if (jobs_.erase(job) == 0) return;
  world_->views().OnRemoved(name(), job);
  for (auto& shard : shards_) shard->Remove(job);
}

void SimServer::Install(const proto::InstallJob& install) {
  const proto::JobRecord& record = install.record();
  world_->OnPlaced(record);
  jobs_.insert(record.job_id());
  for (size_t s = 0; s < shards_.size(); ++s) {
    const uint32_t own = install.own_shards(static_cast<int>(s));
    if (own != kNoShard) shards_[s]->Install(record, own, server::ShardCopy::kPrimary);
  }
  for (const proto::OwnBackup& backup : install.own_backups()) {
    shards_.at(backup.thread())->Install(record, backup.shard(), server::ShardCopy::kBackup);
  }
  NoteViews(record);
  proto::DaemonMessage reply;
  reply.mutable_job_installed()->set_job_id(record.job_id());
  Say(std::move(reply));
}

void SimServer::InstallBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const uint32_t shard = install.backup().shard();
  const uint32_t generation = ShardGeneration(record.placement(), ShardId(shard));
  world_->causes().OnToldOfCopy(record.job_id(), shard, generation);
  proto::DaemonMessage reply;
  proto::BackupInstalled* const installed = reply.mutable_backup_installed();
  installed->set_job_id(record.job_id());
  installed->set_attempt(record.attempt());
  installed->set_shard(shard);
  installed->set_generation(generation);
  if (const absl::Status taken = TakeBackup(install); !taken.ok()) {
    installed->set_error(std::string(taken.message()));
    Forget(record.job_id(), shard, generation);
  }
  Say(std::move(reply));
}

absl::Status SimServer::TakeBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const uint32_t job = record.job_id(), shard = install.backup().shard();
  const uint32_t generation = ShardGeneration(record.placement(), ShardId(shard));
  bool is_here = false;
  for (auto& one : shards_) is_here = one->RemoveShard(job, shard, generation) || is_here;
  if (is_here) return absl::OkStatus();
  if (world_->Takes(Rare::kNoRoomForCopy)) {
    world_->causes().OnRefusedCopy(job, shard, generation);
    return absl::ResourceExhaustedError("no room");
  }
  world_->Count(Rare::kNewCopy);
  jobs_.insert(job);
  shards_.at(install.backup().thread())->Install(record, shard, server::ShardCopy::kEmptyBackup);
  NoteViews(record);
  return absl::OkStatus();
}

void SimServer::RemoveShard(const proto::RemoveShard& remove) {
  if (jobs_.count(remove.job_id()) == 0) return;
  const auto forget = [this, remove] {
    if (jobs_.count(remove.job_id()) == 0) return;
    Forget(remove.job_id(), remove.shard(), remove.generation());
  };
  if (!world_->Takes(Rare::kLateRemoval)) return forget();
  After(world_->random().Between(absl::ZeroDuration(), kRemovedLate), forget);
}

void SimServer::Forget(uint32_t job, uint32_t shard, uint32_t generation) {
  bool is_left = false;
  for (auto& one : shards_) is_left = one->RemoveShard(job, shard, generation) || is_left;
  const bool holds_more = std::any_of(shards_.begin(), shards_.end(),
                                      [job](const auto& one) { return one->Holds(job); });
  if (!is_left && !holds_more) RemoveJob(job);
}

void SimServer::Move(const proto::MoveShard& move) {
  if (jobs_.count(move.job_id()) == 0) return;
  absl::Status moved = absl::NotFoundError("no thread here holds the shard");
  for (size_t s = 0; s < shards_.size() && absl::IsNotFound(moved); ++s) {
    moved = shards_[s]->Move(move);
  }
  if (!moved.ok()) SayNotMoved(move, moved);
}

void SimServer::FillNext(const proto::FillNext& fill) {
  if (jobs_.count(fill.job_id()) == 0) return;
  absl::Status begun = absl::NotFoundError("no thread here holds the shard");
  for (size_t s = 0; s < shards_.size() && absl::IsNotFound(begun); ++s) {
    begun = shards_[s]->FillNext(fill);
  }
  if (begun.ok() || fill.endpoint().empty()) return;
  world_->causes().OnRefusedCopy(fill.job_id(), fill.shard(), fill.generation());
  SayNotMoved(fill, begun);
}

template <typename Message>
void SimServer::SayNotMoved(const Message& asked, const absl::Status& why) {
  proto::DaemonMessage reply;
  proto::ShardNotMoved* not_moved = reply.mutable_shard_not_moved();
  not_moved->set_job_id(asked.job_id());
  not_moved->set_attempt(asked.attempt());
  not_moved->set_shard(asked.shard());
  not_moved->set_generation(asked.generation());
  not_moved->set_error(std::string(why.message()));
  Say(std::move(reply));
}

// Only what decides something.
proto::Heartbeat SimServer::MakeHeartbeat() {
  proto::Heartbeat heartbeat;
  for (size_t s = 0; s < shards_.size(); ++s) {
    for (const server::BackupState& state : shards_[s]->BackupStates()) {
      proto::JobCounters* const counters = heartbeat.add_jobs();
      counters->set_job_id(state.job.value());
      counters->set_shard(static_cast<uint32_t>(s));
      proto::BackupReport* const report = counters->add_backups();
      report->set_shard(state.shard.value());
      report->set_generation(state.generation);
      if (state.waits_since < absl::InfiniteFuture()) {
        const absl::Duration waits = world_->network().Now() - state.waits_since;
        report->set_waits_ms(std::max<uint32_t>(1, absl::ToInt64Milliseconds(waits)));
      }
      report->set_refusal(std::string(state.refusal.message()));
      report->set_is_next(state.is_next);
      report->set_chunks_missing(static_cast<uint32_t>(state.chunks_missing));
      Check(*shards_[s], state, *report);
    }
  }
  return heartbeat;
}

// What is said of a second copy is true, and why it may be dropped.
void SimServer::Check(const SimShard& here, const server::BackupState& state,
                      const proto::BackupReport& report) {
  const uint32_t job = state.job.value(), shard = state.shard.value();
  const auto where = [&] { return absl::StrFormat(": job %d: shard %d", job, shard); };
  if (report.waits_ms() >= kPatienceMs || !state.refusal.ok()) {
    if (state.is_next) {
      world_->causes().OnRefusedCopy(job, shard, state.generation);
    } else {
      world_->causes().OnSlowBackup(job, shard);
    }
  }
  if (!state.refusal.ok()) {
    world_->Log(25, [&] { return name() + where() + ": is refused: " + report.refusal(); });
  }
  const bool cannot_follow = absl::StrContains(report.refusal(), "CONFLICT");
  if (cannot_follow && world_->scenario().faults.corrupt == 0) {
    world_->Fail("a second copy can follow the first" + where() + ": " + report.refusal());
  }
  if (state.chunks_missing > 0) return;
  JobChecker* const checker = world_->shard_checker(job);
  world_->causes().OnWhole(job, shard, state.generation);
  if (state.is_next) {
    if (checker->IsNextWhole({shard, here.process()})) return;
    return world_->Fail("a next backup counts when it is whole" + where());
  }
  if (checker->IsPrimary({shard, here.process()}) && !checker->IsFilled(shard)) {
    world_->Fail("a second copy counts when it is whole" + where());
  }
}

}  // namespace strata::sim
