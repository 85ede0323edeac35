#include "worker/aggregator/aggregator.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/buffer_pool.h"
#include "common/clock.h"
#include "common/cores.h"
#include "common/count_of.h"
#include "common/event_fd.h"
#include "common/fork_join.h"
#include "common/job/arena.h"
#include "common/job/exchange/same_host.h"
#include "common/log.h"
#include "common/process/stop_request.h"
#include "common/trace/trace_log.h"
#include "worker/aggregator/chunk_intake.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/busy_time.h"
#include "worker/aggregator/core/poll_set.h"
#include "worker/aggregator/core/rank_watch.h"
#include "worker/aggregator/create_arenas.h"
#include "worker/aggregator/exchange_text.h"
#include "worker/aggregator/host/node_arenas.h"
#include "worker/aggregator/host/node_counters.h"
#include "worker/aggregator/host/rank_group.h"
#include "worker/aggregator/node_endpoint.h"
#include "worker/aggregator/ring_port.h"
#include "worker/contract/agent_line.h"
#include "worker/contract/launch_devices.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/create_exchange.h"
#include "worker/exchange/ranks_exchange.h"

namespace strata::worker {
namespace {

constexpr absl::Duration kIdlePoll = absl::Seconds(1);
constexpr absl::Duration kActivityEvery = absl::Seconds(1);

class Aggregator {
 public:
  Aggregator(const proto::Launch& launch, const AggregatorOptions& options,
             std::unique_ptr<RankGroup> ranks, EventFd doorbell);

  absl::Status Run();

 private:
  // Opens the port of a node that is to all-reduce, and takes its devices into use. Errors:
  // RingPort's, DevicesOf's.
  absl::Status Open();

  // One turn of the loop each; the exchange is there from Begin on.
  absl::Status Gather();
  absl::Status Begin(const proto::RunNode& run);
  absl::Status CreateExchangeOf(const proto::JobRecord& record, const ChunkMap& map);
  absl::Status StartRanks();
  absl::Status Train();

  absl::Status HearAgent();
  absl::Status AwaitWord();
  absl::Status ReadDescriptors(int timeout_ms);
  absl::Status TakeLeaves();
  void TellCounters();
  // Tells the worker daemon once a second how far everybody is.
  void TellActivity();
  proto::RankActivity ActivityOf(uint32_t local_rank, uint64_t least_landed, absl::Time now);
  absl::Duration UntilActivity() const;
  void Stop(const absl::Status& status);

  const proto::Launch launch_;
  const AggregatorOptions options_;
  const RealClock clock_;
  const std::unique_ptr<TraceLog> trace_;  // null: the job wants none
  client::AgentLine agent_;
  const std::unique_ptr<RankGroup> ranks_;
  const EventFd doorbell_;
  PollSet poll_;

  std::unique_ptr<NodeMemory> memory_;
  std::unique_ptr<AggregatorCore> core_;
  ForkJoin helpers_;
  std::vector<std::shared_ptr<device::Device>> devices_;  // device: GPU: by local rank
  std::unique_ptr<Arenas> arenas_;
  std::unique_ptr<RingPort> port_;  // exchange: RING, until the exchange has it
  std::unique_ptr<Exchange> exchange_;
  std::optional<ChunkIntake> intake_;  // with the exchange
  proto::Started started_;
  bool said_ready_ = false;
  bool training_ = false;
  bool finishing_ = false;
  bool released_ = false;
  std::vector<bool> leave_taken_;
  RankWatch watch_;
  BusyTime busy_;  // with chunks under way
  absl::Time activity_due_;
};

Aggregator::Aggregator(const proto::Launch& launch, const AggregatorOptions& options,
                       std::unique_ptr<RankGroup> ranks, EventFd doorbell)
    : launch_(launch),
      options_(options),
      trace_(TraceLog::Create(launch.record().job())),
      agent_(launch.channel_fd()),
      ranks_(std::move(ranks)),
      doorbell_(std::move(doorbell)),
      helpers_(options.helpers.value_or(HelpersFor(launch.local_ranks(), UsableCores()))),
      leave_taken_(launch.local_ranks(), false),
      watch_(RankId(launch.first_rank()), launch.local_ranks(), clock_.Now()),
      activity_due_(clock_.Now()) {
  poll_.Add(ranks_->fd());
  poll_.Add(doorbell_.fd());
  if (agent_.connected()) poll_.Add(agent_.fd());
  if (options_.stop_fd >= 0) poll_.Add(options_.stop_fd);
}

absl::Status Aggregator::Open() {
  if (AggregatorUsesDevices(launch_.record().job())) {
    auto devices = DevicesOf(launch_);
    if (!devices.ok()) return devices.status();
    devices_ = *std::move(devices);
  }
  if (launch_.record().job().exchange() != proto::Job::RING) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<RingPort>> port = RingPort::Open(launch_, poll_.fd(), &clock_);
  if (port.ok()) port_ = *std::move(port);
  return port.status();
}

absl::Status Aggregator::Run() {
  absl::Status status = Open();
  while (status.ok() && !(released_ && ranks_->all_gone())) {
    TellActivity();
    if (trace_ && trace_->waiting() >= kTraceEventsPerBatchMax) agent_.SendTrace(trace_.get());
    status = exchange_ ? Train() : Gather();
  }
  agent_.SendTrace(trace_.get(), /*all=*/true);
  if (!status.ok()) Stop(status);
  return status;
}

absl::Status Aggregator::ReadDescriptors(int timeout_ms) {
  for (int fd : poll_.Readable(timeout_ms)) {
    if (fd == options_.stop_fd) return absl::CancelledError("the aggregator was told to stop");
    if (fd == doorbell_.fd()) {
      doorbell_.Drain();
    } else if (fd == ranks_->fd()) {
      if (absl::Status status = ranks_->Receive(); !status.ok()) return status;
    } else {
      if (absl::Status status = HearAgent(); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Aggregator::HearAgent() {
  while (true) {
    absl::StatusOr<std::optional<proto::AgentMessage>> message = agent_.TryReceive();
    if (!message.ok()) return message.status();
    if (!message->has_value()) return absl::OkStatus();
    if (!said_ready_ || exchange_) continue;
    absl::Status status;
    if ((*message)->has_run()) status = Begin((*message)->run());
    if ((*message)->has_measure() && port_) status = port_->Measure((*message)->measure().record());
    if (!status.ok()) return status;
  }
}

// Until a descriptor is readable or something is due; a probe of the ring goes on meanwhile.
absl::Status Aggregator::AwaitWord() {
  int timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(UntilActivity())) + 1;
  if (port_ && port_->measuring()) {
    if (absl::Status status = port_->Poll(UntilActivity()); !status.ok()) return status;
    timeout_ms = 0;
    if (std::optional<proto::LinkMeasured> measured = port_->TakeMeasured()) {
      proto::ChildMessage message;
      *message.mutable_measured() = *std::move(measured);
      if (absl::Status status = agent_.Send(message); !status.ok()) return status;
    }
  }
  return ReadDescriptors(timeout_ms);
}

absl::Status Aggregator::Gather() {
  if (absl::Status status = AwaitWord(); !status.ok()) return status;
  if (!memory_ && ranks_->all_attached()) {
    absl::StatusOr<std::unique_ptr<NodeMemory>> memory =
        NodeMemory::Create(ranks_->layout().elements(), launch_.local_ranks());
    if (!memory.ok()) return memory.status();
    memory_ = *std::move(memory);
    return ranks_->SendMemory(memory_->fd(), doorbell_.fd());
  }
  if (!said_ready_ && ranks_->all_offered()) {
    said_ready_ = true;
    proto::ChildMessage message;
    proto::NodeReady* ready = message.mutable_ready();
    ready->set_job_id(launch_.record().job_id());
    *ready->mutable_layout() = ranks_->layout();
    ready->set_samples_per_epoch(ranks_->offer().samples_per_epoch());
    ready->set_total_steps(ranks_->offer().total_steps());
    ready->set_run_dir(launch_.run_dir());
    ready->set_nccl_id(ranks_->offer().nccl_id());
    if (port_) ready->set_endpoint(port_->address());
    return agent_.Send(message);
  }
  return absl::OkStatus();
}

absl::Status Aggregator::CreateExchangeOf(const proto::JobRecord& record, const ChunkMap& map) {
  const proto::Job& job = record.job();
  const ArenasOf of{.job = job, .memory = memory_.get(), .core = core_.get(), .helpers = &helpers_};
  if (options_.exchange || job.exchange() == proto::Job::NCCL) {
    std::unique_ptr<NodeArenas> arenas = CreateNodeArenas(of, map, nullptr);
    exchange_ = options_.exchange ? options_.exchange(arenas.get(), poll_.fd())
                                  : std::make_unique<RanksExchange>(poll_.fd());
    arenas_ = std::move(arenas);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<transport::Endpoint>> endpoint =
      port_ ? port_->Release()
            : ConnectingEndpoint(record, launch_.local_ranks(), memory_->segment());
  if (!endpoint.ok()) return endpoint.status();
  std::shared_ptr<BlockSource> source;
  if (!PushesOutliveAnswers(job)) source = (*endpoint)->memory();
  const CoreOptions core = {.record = record,
                            .node = NodeId(launch_.node()),
                            .incarnation = launch_.incarnation(),
                            .takes_payloads = !devices_.empty() && TakesPayloads(job),
                            .trace = trace_.get()};
  auto arenas = CreateArenas(of, map, source, core, devices_, [this] { doorbell_.Notify(); });
  if (!arenas.ok()) return arenas.status();
  arenas_ = *std::move(arenas);
  auto exchange = CreateExchange(core, *std::move(endpoint), poll_.fd(), arenas_.get(), &clock_);
  if (!exchange.ok()) return exchange.status();
  exchange_ = *std::move(exchange);
  return absl::OkStatus();
}

absl::Status Aggregator::Begin(const proto::RunNode& run) {
  const uint64_t elements = ranks_->layout().elements();
  const uint32_t chunk_elements = run.record().placement().chunk_elements();
  if (chunk_elements == 0 || run.record().layout().elements() != elements ||
      ChunkMap(elements, chunk_elements).chunks() > memory_->offsets().chunks_max) {
    return absl::InvalidArgumentError("the job's record does not fit what its ranks registered");
  }
  const ChunkMap map(elements, chunk_elements);
  core_ = std::make_unique<AggregatorCore>(RankId(launch_.first_rank()), launch_.local_ranks(),
                                           map.chunks());
  if (absl::Status status = CreateExchangeOf(run.record(), map); !status.ok()) return status;
  intake_.emplace(memory_.get(), core_.get(), arenas_.get(), exchange_.get());
  started_.set_chunk_elements(chunk_elements);
  started_.set_samples_per_epoch(run.record().samples_per_epoch());
  started_.set_nccl_id(RanksAddUp(launch_) ? ranks_->offer().nccl_id() : run.record().nccl_id());
  memory_->header().chunks.store(map.chunks());
  LogInfo("job %d node %d: %d elements in %s %s", launch_.record().job_id(), launch_.node(),
          elements, CountOf(map.chunks(), "chunk"), WithWhom(run.record()));
  exchange_->Start();
  return absl::OkStatus();
}

absl::Status Aggregator::Train() {
  NodeHeader& header = memory_->header();
  // Whoever publishes after this store sees it and rings; who published before is found by the look
  // that follows it.
  header.aggregator_asleep.store(1);
  const absl::StatusOr<bool> any = training_ ? intake_->Look() : false;
  if (!any.ok()) return any.status();
  if (*any) header.aggregator_asleep.store(0);
  busy_.Set(core_->under_way() > 0 || exchange_->goes_on(), clock_.Now());
  absl::Status status = exchange_->Poll(*any ? absl::ZeroDuration() : UntilActivity());
  header.aggregator_asleep.store(0);
  if (!status.ok()) return status;
  if (status = ReadDescriptors(0); !status.ok()) return status;
  if (!training_ && exchange_->phase() == Exchange::Phase::kTraining) {
    training_ = true;
    if (status = StartRanks(); !status.ok()) return status;
  }
  if (status = TakeLeaves(); !status.ok()) return status;
  busy_.Set(core_->under_way() > 0 || exchange_->goes_on(), clock_.Now());
  TellCounters();
  if (!released_ && exchange_->phase() == Exchange::Phase::kFinished && !arenas_->busy()) {
    released_ = true;
    header.state.store(NodeState::kFinished);
    ranks_->Release();
  }
  return absl::OkStatus();
}

absl::Status Aggregator::StartRanks() {
  std::vector<proto::Started> started(launch_.local_ranks(), started_);
  for (uint32_t r = 0; r < started.size(); ++r) {
    if (absl::Status status = arenas_->Describe(r, &started[r]); !status.ok()) return status;
  }
  arenas_->LandFirstWeights();
  memory_->header().state.store(NodeState::kTraining);
  ranks_->SendStarted(started);
  return absl::OkStatus();
}

absl::Status Aggregator::TakeLeaves() {
  for (uint32_t r = 0; r < leave_taken_.size(); ++r) {
    if (leave_taken_[r] || !ranks_->left()[r]) continue;
    leave_taken_[r] = true;
    intake_->LookAgain();  // a rank may have gone on already
    if (absl::Status status = core_->OnLeave(r, *ranks_->left()[r]); !status.ok()) return status;
  }
  if (finishing_ || !core_->steps()) return absl::OkStatus();
  // What was published before the last rank left comes first.
  if (absl::Status status = intake_->Look().status(); !status.ok()) return status;
  if (arenas_->busy()) return absl::OkStatus();
  finishing_ = true;
  exchange_->Finish(*core_->steps());
  return absl::OkStatus();
}

void Aggregator::TellCounters() {
  const ExchangeCounters& counters = exchange_->counters();
  NodeHeader& header = memory_->header();
  if (Shows(header, counters)) return;
  ShowCounters(counters, core_->pushes_during_backward(), busy_.Total(clock_.Now()), &header);
}

absl::Duration Aggregator::UntilActivity() const {
  return std::clamp(activity_due_ - clock_.Now(), absl::ZeroDuration(), kIdlePoll);
}

proto::RankActivity Aggregator::ActivityOf(uint32_t local_rank, uint64_t least_landed,
                                           absl::Time now) {
  if (!training_) {
    return watch_.Look(local_rank, {.waiting = ranks_->waits(local_rank)}, 0, now);
  }
  RankWatch::Place place = PlaceOf(*memory_, local_rank, core_->chunks(), least_landed);
  if (ranks_->left()[local_rank]) place.waiting = !released_;
  return watch_.Look(local_rank, place, core_->chunks(), now);
}

void Aggregator::TellActivity() {
  const absl::Time now = clock_.Now();
  if (now < activity_due_ || !agent_.connected()) return;
  activity_due_ = now + kActivityEvery;
  proto::ChildMessage message;
  proto::NodeActivity* activity = message.mutable_activity();
  activity->set_job_id(launch_.record().job_id());
  activity->set_node(launch_.node());
  activity->set_phase(exchange_ ? PhaseName(exchange_->phase()) : "starting");
  const uint64_t least_landed = training_ ? LeastLanded(*memory_, core_->chunks()) : 0;
  for (uint32_t r = 0; r < launch_.local_ranks(); ++r) {
    *activity->add_ranks() = ActivityOf(r, least_landed, now);
  }
  activity->set_refused(ranks_->refused());
  if (exchange_) exchange_->AddActivity(activity);
  if (memory_) {
    activity->set_memory_bytes(memory_->touched_bytes() + (arenas_ ? arenas_->buffer_bytes() : 0) +
                               (exchange_ ? exchange_->memory_bytes() : 0) +
                               (trace_ ? trace_->memory_bytes() : 0));
    activity->set_gpu_memory_bytes(memory_->rank_device_bytes() +
                                   (arenas_ ? arenas_->device_bytes() : 0));
  }
  agent_.SendUnlessFull(message);
  agent_.SendTrace(trace_.get());
}

void Aggregator::Stop(const absl::Status& status) {
  const std::string reason(status.message());
  LogError("job %d node %d: %s", launch_.record().job_id(), launch_.node(), reason);
  if (!absl::IsCancelled(status)) agent_.SendFailed(reason, ranks_->lost());
  if (memory_) {
    NodeHeader& header = memory_->header();
    std::strncpy(header.reason, reason.c_str(), sizeof(header.reason) - 1);
    header.state.store(NodeState::kStopped);
    for (uint32_t r = 0; r < launch_.local_ranks(); ++r) RingRank(&memory_->rank(r));
  }
  ranks_->Stop(reason);
}

}  // namespace

absl::Status RunAggregator(const proto::Launch& launch, const AggregatorOptions& options) {
  absl::StatusOr<std::unique_ptr<RankGroup>> ranks = RankGroup::Create(launch);
  if (!ranks.ok()) return ranks.status();
  absl::StatusOr<EventFd> doorbell = EventFd::Create();
  if (!doorbell.ok()) return doorbell.status();
  Aggregator aggregator(launch, options, *std::move(ranks), *std::move(doorbell));
  return aggregator.Run();
}

absl::Status RunAggregatorProcess(const proto::Launch& launch, AggregatorOptions options) {
  StopRequest stop;
  TuneAllocator();
  options.stop_fd = stop.signal_fd();
  return RunAggregator(launch, options);
}

}  // namespace strata::worker
