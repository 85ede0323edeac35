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

// Refusals are drawn: Rare::kNoRoomForCopy.
constexpr ServerLimits kRoomForAll = {.connections_max = UINT32_MAX, .memory_bytes = UINT64_MAX};
// How long a backup may delay nodes.
constexpr uint32_t kPatienceMs = 1000;
// Time for the shard to have its next copy again.
constexpr absl::Duration kRemovedLate = absl::Seconds(5);
// Heartbeats, twice a second, by which a copy that was placed elsewhere has been forgotten.
constexpr uint32_t kUnplacedBeatsMax = 20;

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
  core_ = std::make_unique<server::ServerDaemonCore>(shards_.size(), kRoomForAll, this);
}

void SimServer::Clear() {
  core_.reset();
  shards_.clear();
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
  if (message.has_install_job()) world_->OnPlaced(message.install_job().record());
  if (message.has_install_backup()) {
    const proto::JobRecord& record = message.install_backup().record();
    const uint32_t shard = message.install_backup().backup().shard();
    world_->causes().OnCopyAnnounced(record.job_id(), shard,
                                     ShardGeneration(record.placement(), ShardId(shard)));
  }
  is_to_fill_next_ = message.has_fill_next();
  const bool may_be_late =
      message.has_remove_shard() && core_->Holds(JobId(message.remove_shard().job_id()));
  if (!may_be_late || !world_->Takes(Rare::kLateRemoval)) return core_->OnMessage(message);
  After(world_->random().Between(absl::ZeroDuration(), kRemovedLate),
        [this, message] { core_->OnMessage(message); });
}

void SimServer::Send(proto::DaemonMessage message) {
  const proto::ViewInstalled& view = message.view_installed();
  if (message.has_view_installed() && view.error().empty()) {
    world_->views().OnInstalled(name(), view.job_id(), view.number());
  }
  const proto::ShardNotMoved& refused = message.shard_not_moved();
  if (message.has_shard_not_moved() && is_to_fill_next_) {
    world_->causes().OnRefusedCopy(refused.job_id(), refused.shard(), refused.generation());
  }
  Say(std::move(message));
}

absl::Status SimServer::BeginInstall(size_t thread, const proto::JobRecord& record, ShardId shard,
                                     server::ShardCopy copy) {
  const JobId job(record.job_id());
  const bool is_new = !shards_[thread]->Holds(job, shard);
  const bool is_late = copy == server::ShardCopy::kEmptyBackup;
  if (is_new && is_late && world_->Takes(Rare::kNoRoomForCopy)) {
    world_->causes().OnRefusedCopy(job.value(), shard.value(),
                                   ShardGeneration(record.placement(), shard));
    return absl::ResourceExhaustedError("no room");
  }
  if (is_new && is_late) world_->Count(Rare::kNewCopy);
  absl::Status begun = shards_[thread]->BeginInstall(record, shard, copy);
  if (begun.ok() && is_new) NoteViews(record);
  // A copy that lies here has gone on since it was to be taken in.
  const bool has_gone_on = !is_new && is_late && absl::IsAlreadyExists(begun);
  if (!begun.ok() && !has_gone_on) {
    world_->Fail("jobs end well: " + std::string(begun.message()));
  }
  return begun;
}

absl::Status SimServer::EndInstall(size_t thread, JobId job) {
  return shards_[thread]->EndInstall(job);
}

void SimServer::Load(const proto::InstallJob& /*install*/) {
  world_->Fail("no job here resumes a checkpoint");
}

absl::Status SimServer::MoveShard(size_t thread, const proto::MoveShard& move) {
  return shards_[thread]->Move(move);
}

absl::Status SimServer::FillNext(size_t thread, const proto::FillNext& fill) {
  return shards_[thread]->FillNext(fill);
}

absl::Status SimServer::ChangeView(size_t thread, const proto::ViewChange& change) {
  return shards_[thread]->ChangeView(change);
}

absl::StatusOr<bool> SimServer::RemoveShard(size_t thread, JobId job, ShardId shard,
                                            uint32_t generation) {
  const bool is_left = shards_[thread]->RemoveShard(job, shard, generation);
  if (!is_left) unplaced_beats_.erase({job.value(), shard.value()});
  return is_left;
}

void SimServer::RemoveJob(JobId job) {
  std::erase_if(unplaced_beats_, [&](const auto& one) { return one.first.first == job.value(); });
  world_->views().OnRemoved(name(), job.value());
  for (auto& shard : shards_) shard->Remove(job);
}

void SimServer::NoteViews(const proto::JobRecord& record) {
  uint32_t number = record.view().number();
  for (const proto::ViewChange& change : record.view_changes()) {
    number = std::max(number, change.number());
  }
  world_->views().OnInstalled(name(), record.job_id(), number);
}

// Only events that decide something.
proto::Heartbeat SimServer::MakeHeartbeat() {
  CheckPlaced();
  proto::Heartbeat heartbeat;
  for (size_t s = 0; s < shards_.size(); ++s) {
    for (const server::BackupState& state : shards_[s]->BackupStates()) {
      proto::JobCounters* const counters = heartbeat.add_jobs();
      counters->set_job_id(state.job.value());
      counters->set_shard(static_cast<uint32_t>(s));
      *counters->add_backups() = server::ReportOf(state, world_->network().Now());
      Check(*shards_[s], state, counters->backups(0));
    }
  }
  return heartbeat;
}

void SimServer::CheckPlaced() {
  for (const auto& here : shards_) {
    for (const auto& [job, shard] : here->Copies()) {
      const proto::StoredJob* const stored = world_->coordinator().FindStored(job);
      const bool is_running = stored != nullptr && stored->status().state() == proto::RUNNING &&
                              shard < static_cast<uint32_t>(stored->status().shards_size());
      if (!is_running) continue;
      const proto::JobShardStatus& home = stored->status().shards(static_cast<int>(shard));
      const bool is_placed = home.daemon() == name() || home.backup() == name() ||
                             home.next_backup() == name() || home.chunks() == 0;
      if (is_placed) {
        unplaced_beats_.erase({job, shard});
      } else if (++unplaced_beats_[{job, shard}] > kUnplacedBeatsMax) {
        world_->Fail(
            absl::StrFormat("a copy that was placed elsewhere is forgotten: job %d: shard "
                            "%d",
                            job, shard));
      }
    }
  }
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

absl::Status SimShard::BeginInstall(const proto::JobRecord& record, ShardId shard,
                                    server::ShardCopy copy) {
  core_.set_fill_ahead(world_->scenario().control.fill_ahead_bytes);
  for (int times = world_->Takes(Rare::kInstallTwice) ? 2 : 1; times > 0; --times) {
    absl::Status begun = core_.BeginInstall(record, shard, copy).status();
    if (!begun.ok()) return begun;
  }
  const bool is_backup = copy != server::ShardCopy::kPrimary;
  const auto index = static_cast<int>(shard.value());
  const proto::Placement& placement = record.placement();
  const auto& endpoints = is_backup ? placement.backup_endpoints() : placement.shard_endpoints();
  const auto keys = *KeysOf(record, endpoints[index]);
  if (keys) (void)endpoint_->Protect(JobId(record.job_id()), *keys);
  const bool is_late = copy == server::ShardCopy::kEmptyBackup;
  const uint32_t generation = ShardGeneration(placement, shard);
  const Held made = {.is_backup = is_backup, .generation = generation, .is_late = is_late};
  if (!held_.try_emplace({record.job_id(), shard.value()}, made).second) return absl::OkStatus();
  JobChecker* const checker = world_->shard_checker(record.job_id());
  if (is_late) {
    checker->OnEmptyInstalled(CopyOf(shard.value()), generation);
  } else {
    checker->OnInstalled(CopyOf(shard.value()), is_backup);
  }
  return absl::OkStatus();
}

absl::Status SimShard::Move(const proto::MoveShard& move) {
  const std::string& backup = move.backup_endpoint();
  const absl::Status moved = core_.Move(move, &actions_);
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

absl::Status SimShard::ChangeView(const proto::ViewChange& change) {
  absl::Status changed = core_.ChangeView(change);
  for (const uint32_t node : change.joined()) {
    if (changed.ok()) RepeatRetire(change.job_id(), node, change.at_clock());
  }
  return changed;
}

bool SimShard::RemoveShard(JobId job, ShardId shard, uint32_t generation) {
  const auto held = held_.find({job.value(), shard.value()});
  const bool is_left = core_.RemoveShard(job, shard, generation, &actions_);
  if (held != held_.end() && !is_left) {
    if (held->second.generation >= generation) {
      world_->Fail(
          absl::StrFormat("only older copies are forgotten: job %d: shard %d of generation "
                          "%d in %d",
                          job.value(), shard.value(), held->second.generation, generation));
    }
    held_.erase(held);
  }
  Execute();
  return is_left;
}

void SimShard::Remove(JobId job) {
  std::vector<uint32_t> primaries;
  bool took_over = false;
  for (const auto& [id, held] : held_) {
    if (id.first != job.value()) continue;
    if (!held.is_backup) primaries.push_back(id.second);
    took_over = took_over || held.took_over;
  }
  // A copy that has taken over got part of its applied changes from its predecessor.
  const bool ended_well = world_->has_ended(job.value()) && !world_->has_failed(job.value());
  if (primaries.size() == 1 && !took_over && ended_well) {
    const auto counters = core_.Counters();
    world_->shard_checker(job.value())->OnRemove(CopyOf(primaries[0]), counters.at(job));
  }
  std::erase_if(held_, [job](const auto& one) { return one.first.first == job.value(); });
  core_.Remove(job, &actions_);
  Execute();
  endpoint_->Forget(job);
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
  if (header.op == Op::kRetire) retired_[{header.job, header.node}] = event;
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

// Only before the new process says HELLO and while the old connection is open: a shard that takes
// it can know by its clock alone that it is of old.
void SimShard::RepeatRetire(uint32_t job, uint32_t node, uint64_t clock) {
  const auto retired = retired_.find({job, node});
  if (retired == retired_.end() || retired->second.frame.header.clock >= clock) return;
  const Event event = std::move(retired->second);
  retired_.erase(retired);
  timers_.After(absl::ZeroDuration(), [this, event] {
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
