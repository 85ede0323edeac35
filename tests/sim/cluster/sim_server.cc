#include "tests/sim/cluster/sim_server.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job_keys.h"
#include "common/job/placement.h"
#include "common/transport/sim/sim_endpoint.h"
#include "kernels/kernels.h"
#include "tests/sim/check/view_checker.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

namespace {

constexpr uint32_t kNoShard = 0xffffffff;
// How long a backup may delay nodes.
constexpr uint32_t kPatienceMs = 1000;
// Time for the shard to have its next copy again.
constexpr absl::Duration kRemovedLate = absl::Seconds(5);

}  // namespace

SimServer::SimServer(World* world, const std::string& name, uint32_t shards)
    : SimDaemon(world, proto::SERVER, name), ports_(shards, 0) {
  Start();
}

// The next process listens on other ports or on the same.
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
  world_->causes().OnCopyAnnounced(record.job_id(), shard, generation);
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

// Only events that decide something.
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

// Checks that a report about a second copy is true, and why the copy may be dropped.
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

namespace {

using transport::Event;
using wire::Op;

// As in ShardThread: while frames wait for room in a peer's queue.
constexpr absl::Duration kBusyPoll = absl::Milliseconds(2);

Bytes OtherThan(const Bytes& payload) {
  auto bytes =
      std::make_shared<std::vector<std::byte>>(payload.data(), payload.data() + payload.size());
  if (!bytes->empty()) bytes->back() ^= std::byte{1};
  return Bytes(bytes, bytes->data(), bytes->size());
}

}  // namespace

SimShard::SimShard(World* world, const std::string& name, const std::string& host_name,
                   uint32_t host, int port)
    : world_(world),
      name_(name),
      host_name_(host_name),
      core_(kernels::Cpu()),
      process_(world->NextShardProcess()),
      timers_(&world->network()) {
  transport::SimEndpoint::Options options;
  options.name = name;
  options.host = host;
  options.encode = world->scenario().encode;
  options.on_ready = [this] { OnReady(); };
  endpoint_ =
      std::make_unique<WatchedEndpoint>(world, options, WatchedEndpoint::Unsealed::kOfOtherJobs);
  backlog_.emplace(endpoint_.get(), std::numeric_limits<size_t>::max());
  port_ = *endpoint_->Listen(absl::StrFormat("tcp://%s:%d", host_name, port));
}

SimShard::~SimShard() = default;

void SimShard::Install(const proto::JobRecord& record, uint32_t shard, server::ShardCopy copy) {
  const bool is_backup = copy != server::ShardCopy::kPrimary;
  const bool is_late = copy == server::ShardCopy::kEmptyBackup;
  const uint32_t generation = ShardGeneration(record.placement(), ShardId(shard));
  JobChecker* const checker = world_->shard_checker(record.job_id());
  held_[{record.job_id(), shard}] = {
      .is_backup = is_backup, .generation = generation, .is_late = is_late};
  if (is_late) {
    checker->OnEmptyInstalled(CopyOf(shard), generation);
  } else {
    checker->OnInstalled(CopyOf(shard), is_backup);
  }
  core_.set_fill_ahead(world_->scenario().control.fill_ahead_bytes);
  for (int times = world_->Takes(Rare::kInstallTwice) ? 2 : 1; times > 0; --times) {
    const absl::Status status = core_.Install(record, ShardId(shard), {}, copy);
    if (!status.ok()) world_->Fail("jobs end well: " + std::string(status.message()));
  }
  const proto::Placement& placement = record.placement();
  const auto& endpoints = is_backup ? placement.backup_endpoints() : placement.shard_endpoints();
  const auto keys = *KeysOf(record, endpoints[static_cast<int>(shard)]);
  if (keys) (void)endpoint_->Protect(JobId(record.job_id()), *keys);
}

absl::Status SimShard::Move(const proto::MoveShard& move) {
  const JobId job(move.job_id());
  const ShardId shard(move.shard());
  const std::string& backup = move.backup_endpoint();
  // The core knows which of the two a sole copy must do.
  const absl::Status moved = backup.empty()
                                 ? core_.Promote(job, shard, move.generation(), &actions_)
                                 : core_.FillBackup(job, shard, move.generation(), backup,
                                                    move.backup_is_whole(), &actions_);
  if (!moved.ok()) return moved;
  Held& held = held_[{move.job_id(), move.shard()}];
  JobChecker* const checker = world_->shard_checker(move.job_id());
  const Copy copy = CopyOf(move.shard());
  if (move.generation() > held.generation) {
    const bool takes_next =
        !held.next.empty() && held.next == backup && held.next_generation == move.generation();
    held.generation = move.generation();
    held.has_whole_backup = false;
    takes_next ? checker->OnNextTaken(copy) : checker->OnAlone(copy, actions_);
    if (takes_next) world_->Count(held.is_backup ? Rare::kPrimaryLeaves : Rare::kBackupLeaves);
    if (backup.empty()) world_->Count(held.is_backup ? Rare::kTakenOver : Rare::kGoneAlone);
    if (held.is_backup && held.is_late) world_->Count(Rare::kLateCopyTakesOver);
    held.took_over = held.took_over || held.is_backup;
    held.is_backup = held.is_late = false;
    held.next.clear();
    if (!backup.empty() && !takes_next) {
      checker->OnFill(copy, move.generation());
      world_->operators().OnFill(host_name_, backup);
    }
  }
  if (move.backup_is_whole() && !std::exchange(held.has_whole_backup, true)) {
    checker->OnWhole(copy);
    world_->operators().OnWhole(host_name_, backup);
  }
  Execute();
  timers_.After(absl::ZeroDuration(), [this] { OnReady(); });  // it may have to connect to somebody
  return moved;
}

absl::Status SimShard::FillNext(const proto::FillNext& fill) {
  const absl::Status begun = core_.FillNext(JobId(fill.job_id()), ShardId(fill.shard()),
                                            fill.generation(), fill.endpoint(), &actions_);
  if (!begun.ok()) return begun;
  Held& held = held_[{fill.job_id(), fill.shard()}];
  const bool is_old = fill.generation() <= held.generation ||
                      fill.generation() < held.next_generation ||
                      (fill.generation() == held.next_generation && fill.endpoint() == held.next);
  if (is_old) return begun;
  JobChecker* const checker = world_->shard_checker(fill.job_id());
  if (!held.next.empty()) checker->OnNextDropped(CopyOf(fill.shard()));
  held.next_generation = fill.generation();
  held.next = fill.endpoint();
  if (!held.next.empty()) checker->OnNext(CopyOf(fill.shard()), fill.generation());
  Execute();
  timers_.After(absl::ZeroDuration(), [this] { OnReady(); });  // as above
  return begun;
}

bool SimShard::RemoveShard(uint32_t job, uint32_t shard, uint32_t generation) {
  const auto held = held_.find({job, shard});
  const bool is_left = core_.RemoveShard(JobId(job), ShardId(shard), generation, &actions_);
  if (held != held_.end() && !is_left) {
    if (held->second.generation >= generation) {
      world_->Fail(
          absl::StrFormat("only older copies are forgotten: job %d: shard %d of generation "
                          "%d in %d",
                          job, shard, held->second.generation, generation));
    }
    held_.erase(held);
  }
  Execute();
  return is_left;
}

bool SimShard::Holds(uint32_t job) const {
  return std::any_of(held_.begin(), held_.end(),
                     [job](const auto& one) { return one.first.first == job; });
}

void SimShard::Remove(uint32_t job) {
  std::vector<uint32_t> primaries;
  bool took_over = false;
  for (const auto& [id, held] : held_) {
    if (id.first != job) continue;
    if (!held.is_backup) primaries.push_back(id.second);
    took_over = took_over || held.took_over;
  }
  // A copy that has taken over got part of its applied changes from its predecessor.
  const bool ended_well = world_->has_ended(job) && !world_->has_failed(job);
  if (primaries.size() == 1 && !took_over && ended_well) {
    const auto counters = core_.Counters();
    world_->shard_checker(job)->OnRemove(CopyOf(primaries[0]), counters.at(JobId(job)));
  }
  if (std::erase_if(held_, [job](const auto& one) { return one.first.first == job; }) == 0) return;
  core_.Remove(JobId(job), &actions_);
  Execute();
  endpoint_->Forget(JobId(job));
}

void SimShard::StandStill(bool stands) {
  stops_ += stands ? 1 : -1;
  if (stops_ == 0) OnReady();
}

void SimShard::OnReady() {
  if (stops_ > 0) return;
  if (world_->Takes(Rare::kStoppedShard)) {
    ++stops_;
    const absl::Duration pause =
        world_->random().Between(absl::ZeroDuration(), world_->scenario().outage_max);
    return timers_.After(pause, [this] { StandStill(false); });
  }
  OnTime();
  events_.clear();
  endpoint_->Poll(backlog_->empty() ? absl::InfiniteDuration() : kBusyPoll, &events_);
  for (Event& event : events_) OnEvent(std::move(event));
  backlog_->SendWaiting();
  WakeAtDeadline();
}

void SimShard::OnTime() {
  const absl::Time now = world_->network().Now();
  if (core_.deadline() > now) return;
  core_.OnTime(now, &actions_);
  for (const auto& [id, held] : held_) {
    if (JobChecker* checker = world_->shard_checker(id.first)) {
      checker->OnShardTime(CopyOf(id.second), now, actions_);
    }
  }
  Execute();
}

void SimShard::WakeAtDeadline() {
  const absl::Time at = core_.deadline();
  if (at >= wakes_at_) return;
  wakes_at_ = at;
  timers_.After(at - world_->network().Now(), [this, at] {
    if (wakes_at_ == at) wakes_at_ = absl::InfiniteFuture();
    OnReady();
  });
}

void SimShard::OnEvent(Event event) {
  switch (event.kind) {
    case Event::Kind::kFrame:
      OnFrame(event);
      break;
    case Event::Kind::kMalformed:
      core_.OnMalformed(event.connection, &actions_);
      Execute();
      break;
    case Event::Kind::kDisconnected:
      Forget(event.connection);
      core_.OnDisconnected(event.connection, event.error, world_->network().Now(), &actions_);
      Execute();
      break;
  }
}

void SimShard::Forget(transport::ConnectionId connection) {
  backlog_->Forget(connection);
  bound_.erase(connection);
  for (const auto& [id, held] : held_) {
    if (JobChecker* checker = world_->shard_checker(id.first))
      checker->OnDisconnected(CopyOf(id.second), connection);
  }
}

void SimShard::Bind(const Event& event) {
  wire::Hello hello;
  const Bytes& payload = event.frame.payload;
  if (!wire::DecodeHello(absl::MakeConstSpan(payload.data(), payload.size()), &hello).ok()) return;
  bound_[event.connection] = {event.frame.header.job, hello.shard};
}

void SimShard::OnFrame(const Event& event) {
  const wire::Header& header = event.frame.header;
  if (header.op == Op::kHello) {
    Bind(event);
    if (world_->Takes(Rare::kHelloTwice)) RepeatHello(event);
  }
  const bool is_reply = header.op == Op::kHelloOk || header.op == Op::kAck ||
                        header.op == Op::kRetry || header.op == Op::kError;
  if (!is_reply && world_->Takes(Rare::kRetry)) {
    wire::Frame retry;
    retry.header = header;
    retry.header.op = Op::kRetry;
    retry.header.flags = 0;
    retry.header.codec = wire::Codec::kNone;
    retry.header.element_count = 0;
    retry.header.sample_count = 0;
    retry.header.payload_checksum = 0;
    retry.header.sequence = 0;
    retry.header.min_clock = 0;
    return Send(event.connection, retry);
  }
  const absl::Time now = world_->network().Now();
  core_.OnFrame(event.connection, event.frame, now, &actions_);
  if (!is_reply) CheckTaken(event, now);
  // A stray frame would be postponed for that reason, too.
  const bool is_put_off =
      std::any_of(actions_.begin(), actions_.end(), [](const server::ShardAction& action) {
        return action.frame.header.error == wire::ErrorCode::kWrongGeneration ||
               action.frame.header.op == Op::kRetry;
      });
  Execute();
  const bool is_here = bound_.count(event.connection) > 0 &&
                       held_.count(bound_[event.connection]) > 0 && header.sequence == 0 &&
                       !is_put_off;
  if (!is_here) return;
  const bool asks = header.op == Op::kInit && (header.flags & wire::kFlagEmpty) != 0;
  if (header.op == Op::kPushPull || (header.op == Op::kInit && !asks)) SendStrays(event);
}

void SimShard::CheckTaken(const Event& event, absl::Time now) {
  const wire::Header& header = event.frame.header;
  JobChecker* const checker = world_->shard_checker(header.job);
  const auto bound = bound_.find(event.connection);
  if (checker == nullptr || bound == bound_.end() || bound->second.first != header.job) return;
  const auto held = held_.find(bound->second);
  if (held == held_.end()) return;
  const Copy copy = CopyOf(bound->second.second);
  if (held->second.is_backup) return checker->OnChange(copy, event.frame, now, actions_);
  if (header.sequence != 0) return;
  const size_t sums =
      header.op == Op::kPushPull ? core_.HeldSums(JobId(header.job), ChunkId(header.chunk)) : 0;
  checker->OnShardFrame(copy, event.connection, event.frame, now, actions_, sums);
}

// Until the shard has been told that the connection is gone; the node may use another one by then.
void SimShard::RepeatHello(const Event& event) {
  const absl::Duration late =
      world_->random().Between(absl::ZeroDuration(), 2 * world_->scenario().timing.hello_timeout);
  timers_.After(late, [this, event] {
    if (stops_ == 0 && bound_.count(event.connection) > 0) OnFrame(event);
  });
}

// After the frame itself, so that the difference is wrong for one reason.
void SimShard::SendStrays(const Event& event) {
  const wire::Header& header = event.frame.header;
  auto send = [&](Rare rare, Op refusal, auto change) {
    if (!world_->Takes(rare)) return;
    wire::Frame frame = event.frame;
    change(&frame);
    Stray(event, std::move(frame), refusal, ToString(rare));
  };
  if (header.op == Op::kInit) {
    return send(Rare::kInitConflict, Op::kError, [](wire::Frame* f) {
      f->payload = OtherThan(f->payload);
      f->header.payload_checksum = wire::Checksum({f->payload.data(), f->payload.size()});
    });
  }
  const JobChecker* checker = world_->shard_checker(header.job);
  if (checker != nullptr && checker->IsNewest(header)) {
    // One beyond the next.
    send(Rare::kClockJump, Op::kError, [](wire::Frame* f) { f->header.clock += 2; });
    // The checksum of a sealed payload is not known.
    const bool has_checksum = header.payload_checksum != 0;
    if (has_checksum)
      send(Rare::kOtherContent, Op::kError, [](wire::Frame* f) {
        f->payload = OtherThan(f->payload);
        f->header.payload_checksum = wire::Checksum({f->payload.data(), f->payload.size()});
      });
  }
  send(Rare::kStaleView, Op::kError, [](wire::Frame* f) { --f->header.view; });
  send(Rare::kFutureView, Op::kRetry, [](wire::Frame* f) { ++f->header.view; });
  send(Rare::kOtherGeneration, Op::kRetry, [](wire::Frame* f) { f->header.generation = 0; });
  send(Rare::kOtherJob, Op::kError, [](wire::Frame* f) { f->header.job += 1; });
  send(Rare::kOtherNode, Op::kError, [](wire::Frame* f) { f->header.node += 1; });
}

void SimShard::Stray(const Event& event, wire::Frame frame, Op refusal, const char* what) {
  world_->Log(7, [&] {
    return absl::StrCat("stray at ", name_, ": ", what, " ", wire::Describe(frame.header));
  });
  std::vector<server::ShardAction> actions;
  core_.OnFrame(event.connection, std::move(frame), world_->network().Now(), &actions);
  const bool refused =
      actions.size() == 1 && (actions[0].frame.header.op == refusal ||
                              actions[0].frame.header.error == wire::ErrorCode::kFenced ||
                              actions[0].frame.header.error == wire::ErrorCode::kNoHello);
  if (!refused) world_->Fail(absl::StrCat("only right frames are taken: ", name_, ": ", what));
}

void SimShard::Execute() {
  while (!actions_.empty()) {
    for (server::ShardAction& action : std::exchange(actions_, {})) Execute(action);
  }
}

void SimShard::Execute(const server::ShardAction& action) {
  using Kind = server::ShardAction::Kind;
  if (action.kind == Kind::kSend) {
    const auto bound = bound_.find(action.connection);
    JobChecker* const checker = world_->shard_checker(action.frame.header.job);
    if (checker != nullptr && bound != bound_.end() && held_.count(bound->second) > 0) {
      checker->OnSent(CopyOf(bound->second.second), action);
    }
    return Send(action.connection, action.frame);
  }
  if (action.kind == Kind::kClose) {
    Forget(action.connection);
    return endpoint_->Close(action.connection);
  }
  const absl::Time now = world_->network().Now();
  const auto connection = endpoint_->ConnectFor(action.address, action.job);
  if (connection.ok()) {
    bound_[*connection] = {action.job.value(), action.shard.value()};
    return core_.OnConnected(action, *connection, now, &actions_);
  }
  core_.OnConnectFailed(action, connection.status(), now, &actions_);
}

void SimShard::Send(transport::ConnectionId connection, const wire::Frame& frame) {
  const server::FrameBacklog::Result sent = backlog_->Send(connection, frame);
  if (sent == server::FrameBacklog::Result::kFull) world_->Count(Rare::kQueueFull);
}

}  // namespace strata::sim
