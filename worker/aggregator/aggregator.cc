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
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/open_store.h"
#include "common/clock.h"
#include "common/event_fd.h"
#include "common/job/trace_log.h"
#include "common/log.h"
#include "common/os/stop_request.h"
#include "common/transport/endpoint.h"
#include "worker/aggregator/core/rank_group.h"
#include "worker/aggregator/core/rank_watch.h"
#include "worker/aggregator/node_checkpoints.h"
#include "worker/aggregator/node_endpoint.h"
#include "worker/aggregator/node_training.h"
#include "worker/contract/agent_channel.h"
#include "worker/contract/launch.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {
namespace {

constexpr absl::Duration kIdlePoll = absl::Seconds(1);
constexpr absl::Duration kActivityEvery = absl::Seconds(1);
// For pending writes to the store when the job ends: less than JobDeadlines gives the process.
constexpr absl::Duration kLastCheckpoints = absl::Minutes(2);

class Aggregator {
 public:
  Aggregator(const proto::Launch& launch, const AggregatorOptions& options,
             std::unique_ptr<RankGroup> ranks, EventFd doorbell);

  absl::Status Run();

 private:
  // The ranks' progress before training; the states follow in this order.
  enum class Gathering {
    kAttaching,    // they register their tensors
    kOffering,     // they have the node's memory and offer first weights
    kAwaitingRun,  // all have, and the worker daemon has been told NodeReady
  };

  // Opens the port of a node that is to all-reduce, and its devices. Errors: those of RingPort and
  // UseDevices.
  absl::Status Open();

  // One turn of the loop each: until RunNode comes, and after it.
  absl::Status Gather();
  absl::Status Train();

  absl::Status GiveMemory();
  absl::Status TellReady();
  absl::Status Begin(const proto::RunNode& run);
  // Reads the state that the node resumes from.
  absl::Status Load(const proto::JobRecord& record);
  void SendParts();
  void FinishCheckpoints(const absl::Status& status);

  absl::Status HearAgent();
  absl::Status AwaitWord();
  absl::Status ReadDescriptors(int timeout_ms);
  // Reports everybody's progress to the worker daemon once a second.
  void TellActivity();
  void TellRefusals();
  proto::RankActivity ActivityOf(uint32_t local_rank, uint64_t least_landed, absl::Time now);
  absl::Duration UntilActivity() const;
  bool ranks_train() const { return training_ && training_->ranks_train(); }
  void Stop(const absl::Status& status);

  const proto::Launch launch_;
  const AggregatorOptions options_;
  const RealClock clock_;
  std::unique_ptr<TraceLog> trace_;  // null: the job is not traced
  client::AgentChannel agent_;
  const std::unique_ptr<RankGroup> ranks_;
  const EventFd doorbell_;
  PollSet poll_;

  std::unique_ptr<NodeMemory> memory_;
  std::vector<std::shared_ptr<device::Device>> devices_;  // device: GPU: by local rank
  std::unique_ptr<RingPort> port_;                        // exchange: RING
  Gathering gathering_ = Gathering::kAttaching;
  std::unique_ptr<NodeTraining> training_;        // set by RunNode
  std::unique_ptr<NodeCheckpoints> checkpoints_;  // likewise; null: nodes write none
  std::shared_ptr<const NodeResume> resume_;      // null: nothing to resume from
  bool is_damaged_ = false;                       // the checkpoint is damaged
  RankWatch watch_;
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
      watch_(RankId(launch.first_rank()), launch.local_ranks(), clock_.Now()),
      activity_due_(clock_.Now()) {
  poll_.Add(ranks_->fd());
  poll_.Add(doorbell_.fd());
  if (agent_.connected()) poll_.Add(agent_.fd());
  if (options_.stop_fd >= 0) poll_.Add(options_.stop_fd);
}

absl::Status Aggregator::Open() {
  if (AggregatorUsesDevices(launch_.record().job())) {
    auto devices = UseDevices(launch_);
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
  while (status.ok() && !(training_ && training_->ranks_may_go() && ranks_->all_gone())) {
    TellActivity();
    if (trace_ && trace_->waiting() >= kTraceEventsPerBatchMax) agent_.SendTrace(trace_.get());
    status = training_ ? Train() : Gather();
  }
  if (checkpoints_) FinishCheckpoints(status);
  TellRefusals();
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
    absl::Status status = training_ ? training_->Hear(**message) : absl::OkStatus();
    if (!status.ok()) return status;
    if (gathering_ != Gathering::kAwaitingRun || training_) continue;
    if ((*message)->has_run()) status = Begin((*message)->run());
    if ((*message)->has_measure() && port_) status = port_->Measure((*message)->measure().record());
    if (!status.ok()) return status;
  }
}

// Waits until a descriptor is readable or something is due; meanwhile a probe of the ring
// continues.
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
  if (gathering_ == Gathering::kAttaching && ranks_->all_attached()) return GiveMemory();
  if (gathering_ == Gathering::kOffering && ranks_->all_offered()) return TellReady();
  return absl::OkStatus();
}

absl::Status Aggregator::GiveMemory() {
  absl::StatusOr<std::unique_ptr<NodeMemory>> memory =
      NodeMemory::Create(ranks_->layout().elements(), launch_.local_ranks(),
                         /*has_tables=*/ranks_->layout().tables_size() > 0);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  gathering_ = Gathering::kOffering;
  return ranks_->SendMemory(memory_->fd(), doorbell_.fd());
}

absl::Status Aggregator::TellReady() {
  if (absl::Status can = CheckCanRejoin(launch_, ranks_->offer()); !can.ok()) return can;
  gathering_ = Gathering::kAwaitingRun;
  proto::ChildMessage message;
  proto::NodeReady* ready = message.mutable_ready();
  ready->set_job_id(launch_.record().job_id());
  *ready->mutable_layout() = ranks_->layout();
  ready->set_samples_per_epoch(ranks_->offer().samples_per_epoch());
  ready->set_total_steps(ranks_->offer().total_steps());
  ready->set_run_dir(launch_.run_dir());
  ready->set_nccl_id(ranks_->offer().nccl_id());
  ready->set_takes_first_weights(ranks_->offer().takes_first_weights());
  ready->set_says_rates(ranks_->offer().says_rates());
  ready->set_can_resume(ranks_->offer().can_resume());
  ready->set_ranks_keep_state(ranks_->offer().keeps_state());
  ready->set_samples_per_rank(ranks_->offer().samples_per_rank());
  ready->set_marks_absent(ranks_->offer().marks_absent());
  if (ranks_->offer().has_optimizer()) *ready->mutable_optimizer() = ranks_->offer().optimizer();
  if (port_) ready->set_endpoint(port_->address());
  return agent_.Send(message);
}

absl::Status Aggregator::Begin(const proto::RunNode& run) {
  // The number of steps per clock may depend on the optimizer that the program has named since.
  trace_ = TraceLog::Create(run.record().job());
  if (absl::Status loaded = Load(run.record()); !loaded.ok()) return loaded;
  if (NodesWriteCheckpoints(run.record().job())) {
    checkpoints_ =
        std::make_unique<NodeCheckpoints>(run.record(), launch_.node(), options_.open_store);
  }
  absl::StatusOr<std::unique_ptr<NodeTraining>> training =
      NodeTraining::Begin({.launch = launch_,
                           .memory = memory_.get(),
                           .ranks = ranks_.get(),
                           .doorbell = &doorbell_,
                           .wake_fd = poll_.fd(),
                           .port = port_.get(),
                           .devices = devices_,
                           .clock = &clock_,
                           .trace = trace_.get(),
                           .resume = resume_,
                           .helpers = options_.helpers,
                           .exchange = options_.exchange},
                          run);
  resume_.reset();  // all of it has been copied
  if (training.ok()) training_ = *std::move(training);
  return training.status();
}

absl::Status Aggregator::Load(const proto::JobRecord& record) {
  // Servers hold its state.
  const bool rejoins = Rejoins(record, NodeId(launch_.node()), launch_.incarnation());
  if (rejoins) return absl::OkStatus();
  auto resume = LoadNodeResume(record, launch_.node(), options_.open_store);
  if (resume.ok()) {
    resume_ = *std::move(resume);
    return absl::OkStatus();
  }
  is_damaged_ = IsDamage(resume.status());
  return resume.status();
}

void Aggregator::SendParts() {
  for (proto::CheckpointPart& part : checkpoints_->TakeParts()) {
    proto::ChildMessage message;
    *message.mutable_checkpoint() = std::move(part);
    agent_.Send(message).IgnoreError();  // a lost connection ends the loop
  }
}

// If the job fails, its daemon waits for the processes only briefly.
void Aggregator::FinishCheckpoints(const absl::Status& status) {
  if (training_) checkpoints_->Take(training_->exchange()->core());
  checkpoints_->Finish(status.ok() ? kLastCheckpoints : absl::Seconds(1));
  std::stop_source(options_.stores).request_stop();
  SendParts();
}

absl::Status Aggregator::Train() {
  if (absl::Status status = training_->MoveChunks(UntilActivity()); !status.ok()) return status;
  if (absl::Status status = ReadDescriptors(0); !status.ok()) return status;
  if (checkpoints_) {
    checkpoints_->Take(training_->exchange()->core());
    SendParts();
  }
  const bool made_all = training_->steps_made().has_value();
  absl::Status advanced = training_->Advance();
  for (const proto::ChildMessage& answer : training_->TakeAnswers()) {
    if (absl::Status status = agent_.Send(answer); !status.ok()) return status;
  }
  // The number is needed at once: other nodes must have made as many steps.
  if (!made_all && training_->steps_made()) activity_due_ = clock_.Now();
  return advanced;
}

absl::Duration Aggregator::UntilActivity() const {
  return std::clamp(activity_due_ - clock_.Now(), absl::ZeroDuration(), kIdlePoll);
}

proto::RankActivity Aggregator::ActivityOf(uint32_t local_rank, uint64_t least_landed,
                                           absl::Time now) {
  if (!ranks_train()) {
    return watch_.Look(local_rank, {.waiting = ranks_->waits(local_rank)}, 0, now);
  }
  return watch_.Look(local_rank, training_->MeasureProgress(local_rank, least_landed),
                     training_->chunks(), now);
}

void Aggregator::TellActivity() {
  const absl::Time now = clock_.Now();
  if (now < activity_due_ || !agent_.connected()) return;
  activity_due_ = now + kActivityEvery;
  proto::ChildMessage message;
  proto::NodeActivity* activity = message.mutable_activity();
  activity->set_job_id(launch_.record().job_id());
  activity->set_node(launch_.node());
  activity->set_phase("starting");
  const uint64_t least_landed = ranks_train() ? training_->least_landed() : 0;
  for (uint32_t r = 0; r < launch_.local_ranks(); ++r) {
    *activity->add_ranks() = ActivityOf(r, least_landed, now);
  }
  activity->set_refused(ranks_->refused());
  if (training_) training_->AddActivity(activity);
  if (memory_) {
    activity->set_memory_bytes(memory_->touched_bytes() +
                               (training_ ? training_->memory_bytes() : 0) +
                               (trace_ ? trace_->memory_bytes() : 0));
    activity->set_gpu_memory_bytes(memory_->rank_device_bytes() +
                                   (training_ ? training_->device_bytes() : 0));
  }
  agent_.SendUnlessFull(message);
  TellRefusals();
  agent_.SendTrace(trace_.get());
}

void Aggregator::TellRefusals() {
  transport::Refusals refusals;
  if (port_) refusals = port_->refusals();
  if (training_) refusals = training_->exchange()->refusals();
  if (refusals.empty()) return;
  proto::ChildMessage message;
  for (const auto& [cause, count] : refusals) {
    proto::Refusal* refusal = message.mutable_refusals()->add_refusals();
    refusal->set_cause(cause);
    refusal->set_count(count);
  }
  agent_.SendUnlessFull(message);
}

void Aggregator::Stop(const absl::Status& status) {
  const std::string reason(status.message());
  LogError("job %d node %d: %s", launch_.record().job_id(), launch_.node(), reason);
  if (is_damaged_) {
    agent_.SendDamaged(reason);
  } else if (!absl::IsCancelled(status)) {
    agent_.SendFailed(status, ranks_->lost());
  }
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
  if (!options.open_store) {
    options.open_store = [stop = options.stores.get_token()](const std::string& address) {
      return OpenStore(address, {.environment = OwnEnvironment(), .stop = stop});
    };
  }
  return RunAggregator(launch, options);
}

absl::Status CheckCanRejoin(const proto::Launch& launch, const proto::Offer& offer) {
  const NodeId node(launch.node());
  if (!Rejoins(launch.record(), node, launch.incarnation())) return absl::OkStatus();
  const char* lack = nullptr;
  if (!offer.can_resume()) {
    lack =
        "its program has not said that it can begin with a step that is not the first "
        "(JobFacts::can_resume)";
  } else if (offer.keeps_state()) {
    lack =
        launch.incarnation() > 1
            ? "its ranks keep state of their own, which died with them (JobFacts::keeps_state)"
            : "its ranks keep state of their own, which they do not have (JobFacts::keeps_state)";
  }
  if (lack == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      launch.incarnation() > 1 ? "node %d cannot take the place of the one that died: %s"
                               : "node %d cannot join the job: %s",
      launch.node(), lack));
}

}  // namespace strata::worker
