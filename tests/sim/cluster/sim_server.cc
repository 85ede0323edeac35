#include "tests/sim/cluster/sim_server.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/exchange/job_keys.h"
#include "common/transport/sim/sim_endpoint.h"
#include "kernels/kernels.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

using transport::Event;
using wire::Op;

constexpr uint32_t kNoShard = 0xffffffff;
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
    : world_(world), name_(name), core_(kernels::Cpu()), timers_(&world->network()) {
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

void SimShard::Install(const proto::JobRecord& record, uint32_t own_shard) {
  own_shard_[record.job_id()] = own_shard;
  for (int times = world_->Takes(Rare::kInstallTwice) ? 2 : 1; times > 0; --times) {
    const absl::Status status = core_.Install(record, ShardId(own_shard));
    if (!status.ok()) world_->Fail("jobs end well: " + std::string(status.message()));
  }
  const auto keys =
      *KeysOf(record, record.placement().shard_endpoints(static_cast<int>(own_shard)));
  if (keys) (void)endpoint_->Protect(JobId(record.job_id()), *keys);
}

void SimShard::Remove(uint32_t job) {
  if (own_shard_.count(job) == 0) return;
  const auto counters = core_.Counters();
  if (!world_->has_failed(job)) {
    world_->shard_checker(job)->OnRemove(own_shard_[job], counters.at(JobId(job)));
  }
  core_.Remove(JobId(job), &actions_);
  Execute();
  endpoint_->Forget(JobId(job));
  own_shard_.erase(job);
}

void SimShard::OnReady() {
  if (stopped_) return;
  if (world_->Takes(Rare::kStoppedShard)) {
    stopped_ = true;
    const absl::Duration pause =
        world_->random().Between(absl::ZeroDuration(), world_->scenario().outage_max);
    return timers_.After(pause, [this] {
      stopped_ = false;
      OnReady();
    });
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
  for (const auto& [job, own_shard] : own_shard_) {
    if (JobChecker* checker = world_->shard_checker(job)) {
      checker->OnShardTime(own_shard, now, actions_);
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
  open_.erase(connection);
  for (const auto& [job, own_shard] : own_shard_) {
    if (JobChecker* checker = world_->shard_checker(job))
      checker->OnDisconnected(own_shard, connection);
  }
}

void SimShard::OnFrame(const Event& event) {
  const wire::Header& header = event.frame.header;
  if (header.op == Op::kHello) {
    open_.insert(event.connection);
    if (world_->Takes(Rare::kHelloTwice)) RepeatHello(event);
  }
  if (world_->Takes(Rare::kRetry)) {
    wire::Frame retry;
    retry.header = header;
    retry.header.op = Op::kRetry;
    retry.header.flags = 0;
    retry.header.codec = wire::Codec::kNone;
    retry.header.element_count = 0;
    retry.header.sample_count = 0;
    retry.header.payload_checksum = 0;
    return Send(event.connection, retry);
  }
  const absl::Time now = world_->network().Now();
  core_.OnFrame(event.connection, event.frame, now, &actions_);
  JobChecker* checker = world_->shard_checker(header.job);
  const auto own = own_shard_.find(header.job);
  if (checker != nullptr && own != own_shard_.end()) {
    const size_t held =
        header.op == Op::kPushPull ? core_.HeldSums(JobId(header.job), ChunkId(header.chunk)) : 0;
    checker->OnShardFrame(own->second, event.connection, event.frame, now, actions_, held);
  }
  Execute();
  if (own == own_shard_.end()) return;
  const bool asks = header.op == Op::kInit && (header.flags & wire::kFlagEmpty) != 0;
  if (header.op == Op::kPushPull || (header.op == Op::kInit && !asks)) SendStrays(event);
}

// As long as the shard has not learned that the connection is gone; the node may speak over another
// one by then.
void SimShard::RepeatHello(const Event& event) {
  const absl::Duration late =
      world_->random().Between(absl::ZeroDuration(), 2 * world_->scenario().timing.hello_timeout);
  timers_.After(late, [this, event] {
    if (open_.count(event.connection) > 0) OnFrame(event);
  });
}

// After the frame itself, so that what differs is wrong for one reason.
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
    // Of what was sealed no checksum is known.
    const bool has_checksum = header.payload_checksum != 0;
    if (has_checksum)
      send(Rare::kOtherContent, Op::kError, [](wire::Frame* f) {
        f->payload = OtherThan(f->payload);
        f->header.payload_checksum = wire::Checksum({f->payload.data(), f->payload.size()});
      });
  }
  send(Rare::kStaleView, Op::kError, [](wire::Frame* f) { --f->header.view; });
  send(Rare::kFutureView, Op::kRetry, [](wire::Frame* f) { ++f->header.view; });
  send(Rare::kOtherGeneration, Op::kRetry, [](wire::Frame* f) { --f->header.generation; });
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
  if (action.kind == Kind::kSend) return Send(action.connection, action.frame);
  if (action.kind == Kind::kClose) {
    Forget(action.connection);
    return endpoint_->Close(action.connection);
  }
  const absl::Time now = world_->network().Now();
  const auto connection = endpoint_->ConnectFor(action.address, action.job);
  if (connection.ok()) return core_.OnConnected(action, *connection, now, &actions_);
  core_.OnConnectFailed(action, connection.status(), now, &actions_);
}

void SimShard::Send(transport::ConnectionId connection, const wire::Frame& frame) {
  const server::FrameBacklog::Result sent = backlog_->Send(connection, frame);
  if (sent == server::FrameBacklog::Result::kFull) world_->Count(Rare::kQueueFull);
}

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
}

bool SimServer::Listens(const std::string& address) const {
  return std::any_of(shards_.begin(), shards_.end(), [&](const auto& shard) {
    return address == absl::StrFormat("tcp://%s:%d", name(), shard->port());
  });
}

void SimServer::OnMessage(const proto::CoordinatorMessage& message) {
  if (message.has_install_job()) {
    Install(message.install_job());
  } else if (message.has_remove_job() && jobs_.erase(message.remove_job().job_id()) > 0) {
    for (auto& shard : shards_) shard->Remove(message.remove_job().job_id());
  }
}

void SimServer::Install(const proto::InstallJob& install) {
  world_->OnPlaced(install.record());
  jobs_.insert(install.record().job_id());
  for (size_t s = 0; s < shards_.size(); ++s) {
    const uint32_t own = install.own_shards(static_cast<int>(s));
    if (own != kNoShard) shards_[s]->Install(install.record(), own);
  }
  proto::DaemonMessage reply;
  reply.mutable_job_installed()->set_job_id(install.record().job_id());
  Say(std::move(reply));
}

}  // namespace strata::sim
