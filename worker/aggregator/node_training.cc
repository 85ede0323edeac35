#include "worker/aggregator/node_training.h"

#include <utility>

#include "common/cores.h"
#include "common/counted.h"
#include "common/job/consistency.h"
#include "common/job/exchange/same_host.h"
#include "common/job/job.h"
#include "common/log.h"
#include "common/require.h"
#include "worker/aggregator/create_arenas.h"
#include "worker/aggregator/device/copy_in_parts.h"
#include "worker/aggregator/exchange_text.h"
#include "worker/aggregator/host/node_counters.h"
#include "worker/aggregator/node_endpoint.h"
#include "worker/aggregator/one_node_exchange.h"
#include "worker/contract/launch_devices.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/create_exchange.h"
#include "worker/exchange/ranks_exchange.h"

namespace strata::worker {

namespace {

uint32_t Helpers(const NodeTraining::Parts& parts) {
  if (parts.helpers.has_value()) return *parts.helpers;
  const uint32_t ranks = parts.launch.local_ranks(), cores = UsableCores();
  return parts.devices.empty() ? HelpersFor(ranks, cores) : CopyHelpersFor(ranks, cores);
}

}  // namespace

NodeTraining::NodeTraining(const Parts& parts, const ChunkMap& map, Views views)
    : parts_(parts),
      memory_(*parts.memory),
      ranks_(*parts.ranks),
      core_(RankId(parts.launch.first_rank()), parts.launch.local_ranks(), map.chunks()),
      helpers_(Helpers(parts)),
      leave_taken_(parts.launch.local_ranks(), false),
      gate_(std::move(views)) {}

absl::StatusOr<std::unique_ptr<NodeTraining>> NodeTraining::Begin(const Parts& parts,
                                                                  const proto::RunNode& run) {
  const proto::JobRecord& record = run.record();
  const uint64_t elements = parts.ranks->layout().elements();
  const uint32_t chunk_elements = record.placement().chunk_elements();
  if (chunk_elements == 0 || record.layout().elements() != elements ||
      ChunkMap(elements, chunk_elements).chunks() > parts.memory->offsets().chunks_max) {
    return absl::InvalidArgumentError("the job's record does not fit what its ranks registered");
  }
  const ChunkMap map(elements, chunk_elements);
  absl::StatusOr<Views> views = Views::Of(record);
  if (!views.ok()) return views.status();
  std::unique_ptr<NodeTraining> training(new NodeTraining(parts, map, *std::move(views)));
  if (absl::Status status = training->JoinExchange(record, map); !status.ok()) return status;
  training->intake_.emplace(parts.memory, &training->core_, training->arenas_.get(),
                            training->exchange_.get());
  training->started_.set_chunk_elements(chunk_elements);
  training->started_.set_samples_per_epoch(record.samples_per_epoch());
  training->started_.set_nccl_id(RanksAddUp(parts.launch) ? parts.ranks->offer().nccl_id()
                                                          : record.nccl_id());
  parts.memory->header().chunks.store(map.chunks());
  LogInfo("job %d node %d: %d elements in %s %s", parts.launch.record().job_id(),
          parts.launch.node(), elements, Counted(map.chunks(), "chunk"), WithWhom(record));
  if (absl::Status status = training->exchange_->Start(); !status.ok()) return status;
  return training;
}

absl::Status NodeTraining::JoinExchange(const proto::JobRecord& record, const ChunkMap& map) {
  const proto::Job& job = record.job();
  const ArenasOf of{.job = job, .memory = &memory_, .core = &core_, .helpers = &helpers_};
  if (parts_.exchange || job.exchange() == proto::Job::NCCL) {
    if (DropsLost(job) && record.has_resume()) {
      return absl::InvalidArgumentError("on_loss: DROP goes without checkpoints");
    }
    if (DropsLost(job) && !parts_.exchange) {
      ranks_ring_.emplace(record.view(), NodeId(parts_.launch.node()), &memory_, &ranks_);
    }
    std::unique_ptr<NodeArenas> arenas = CreateNodeArenas(of, map, nullptr);
    exchange_ = parts_.exchange
                    ? parts_.exchange(arenas.get(), parts_.wake_fd)
                    : std::make_unique<RanksExchange>(parts_.wake_fd, record.resume().step());
    arenas_ = std::move(arenas);
    return absl::OkStatus();
  }
  if (IsMeanOfOneNode(record)) {
    std::unique_ptr<NodeArenas> arenas = CreateNodeArenas(of, map, nullptr);
    exchange_ = std::make_unique<OneNodeExchange>(arenas.get(), map.chunks(), parts_.wake_fd);
    arenas_ = std::move(arenas);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<transport::Endpoint>> endpoint =
      parts_.port ? parts_.port->Release()
                  : ConnectingEndpoint(record, parts_.launch.local_ranks(), memory_.segment());
  if (!endpoint.ok()) return endpoint.status();
  std::shared_ptr<BlockSource> source;
  if (!PushesOutliveAnswers(job)) source = (*endpoint)->memory();
  const CoreOptions core = {
      .record = record,
      .node = NodeId(parts_.launch.node()),
      .incarnation = parts_.launch.incarnation(),
      // What was left out before the checkpoint is restored on the host.
      .takes_payloads = !parts_.devices.empty() && TakesPayloads(job) && parts_.resume == nullptr,
      .resume = parts_.resume,
      .trace = parts_.trace};
  auto arenas = CreateArenas(of, map, source, core, parts_.devices,
                             [doorbell = parts_.doorbell] { doorbell->Notify(); });
  if (!arenas.ok()) return arenas.status();
  arenas_ = *std::move(arenas);
  auto exchange =
      CreateExchange(core, *std::move(endpoint), parts_.wake_fd, arenas_.get(), parts_.clock);
  if (!exchange.ok()) return exchange.status();
  exchange_ = *std::move(exchange);
  return absl::OkStatus();
}

absl::Status NodeTraining::MoveChunks(absl::Duration timeout) {
  NodeHeader& header = memory_.header();
  // Whoever publishes after this store sees it and rings; who published before is found by the look
  // that follows it.
  header.aggregator_asleep.store(1);
  const absl::StatusOr<bool> any = phase_ >= Phase::kTraining ? intake_->Look() : false;
  if (!any.ok()) return any.status();
  if (*any) header.aggregator_asleep.store(0);
  NoteBusy();
  const absl::Status status = exchange_->Poll(*any ? absl::ZeroDuration() : timeout);
  header.aggregator_asleep.store(0);
  return status;
}

absl::Status NodeTraining::Advance() {
  const bool is_seeded = exchange_->phase() == Exchange::Phase::kTraining && !arenas_->busy();
  if (phase_ == Phase::kSeeding && is_seeded) {
    if (absl::Status status = StartRanks(); !status.ok()) return status;
  }
  if (absl::Status status = TakeLeaves(); !status.ok()) return status;
  if (asked_ > 0) {
    if (absl::Status status = StopRing(asked_); !status.ok()) return status;
  }
  if (phase_ == Phase::kTraining && core_.steps()) {
    if (absl::Status status = FinishExchange(); !status.ok()) return status;
  }
  NoteBusy();
  ShowRanksCounters();
  const bool finished = exchange_->phase() == Exchange::Phase::kFinished;
  if (phase_ == Phase::kFinishing && finished && !arenas_->busy()) ReleaseRanks();
  return absl::OkStatus();
}

// Where a process that takes another one's place finds all rounds of local steps pushed, the last
// one may have had fewer steps than a round has.
uint64_t NodeTraining::FirstStep() const {
  const uint64_t first = exchange_->first_clock(), all = ranks_.offer().total_steps();
  const proto::JobRecord& record = parts_.launch.record();
  const bool rejoins = Rejoins(record, NodeId(parts_.launch.node()), parts_.launch.incarnation());
  const bool is_past = all > 0 && first > all && first - all < StepsPerClock(record.job());
  return rejoins && is_past ? all : first;
}

absl::Status NodeTraining::StartRanks() {
  const uint64_t first_step = FirstStep();
  core_.BeginAt(first_step);
  memory_.BeginAt(first_step, core_.chunks());
  started_.set_first_step(first_step);
  for (const proto::ViewChange& change : gate_.views().changes()) {
    *started_.add_view_changes() = change;
  }
  std::vector<proto::Started> started(parts_.launch.local_ranks(), started_);
  for (uint32_t r = 0; r < started.size(); ++r) {
    if (absl::Status status = arenas_->Describe(r, &started[r]); !status.ok()) return status;
  }
  phase_ = Phase::kTraining;
  arenas_->LandFirstWeights();
  memory_.header().state.store(NodeState::kTraining);
  ranks_.SendStarted(started);
  Promise();
  return absl::OkStatus();
}

absl::Status NodeTraining::TakeLeaves() {
  for (uint32_t r = 0; r < leave_taken_.size(); ++r) {
    if (leave_taken_[r] || !ranks_.left()[r]) continue;
    leave_taken_[r] = true;
    intake_->LookAgain();  // a rank may have gone on already
    if (absl::Status status = core_.OnLeave(r, *ranks_.left()[r]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Once the arenas have handed on all that was published before the last rank left.
absl::Status NodeTraining::FinishExchange() {
  if (absl::Status status = intake_->Look().status(); !status.ok()) return status;
  if (arenas_->busy()) return absl::OkStatus();
  phase_ = Phase::kFinishing;
  return exchange_->Finish(*core_.steps());
}

void NodeTraining::ReleaseRanks() {
  phase_ = Phase::kReleased;
  memory_.header().state.store(NodeState::kFinished);
  ranks_.Release();
}

void NodeTraining::NoteBusy() {
  busy_.Set(core_.under_way() > 0 || exchange_->goes_on(), parts_.clock->Now());
}

void NodeTraining::ShowRanksCounters() {
  const ExchangeCounters& counters = exchange_->counters();
  NodeHeader& header = memory_.header();
  if (Shows(header, counters)) return;
  ShowCounters(counters, core_.pushes_during_backward(), busy_.Total(parts_.clock->Now()), &header);
}

uint64_t NodeTraining::least_landed() const {
  STRATA_REQUIRE(ranks_train());
  return LeastLanded(memory_, core_.chunks());
}

RankWatch::Progress NodeTraining::MeasureProgress(uint32_t local_rank,
                                                  uint64_t least_landed) const {
  STRATA_REQUIRE(ranks_train());
  RankWatch::Progress progress =
      strata::worker::MeasureProgress(memory_, local_rank, core_.chunks(), least_landed);
  if (ranks_.left()[local_rank]) progress.waiting = !ranks_may_go();
  return progress;
}

void NodeTraining::AddActivity(proto::NodeActivity* activity) const {
  activity->set_phase(PhaseText());
  const NodeId node(parts_.launch.node());
  if (ranks_train() && Rejoins(parts_.launch.record(), node, parts_.launch.incarnation())) {
    activity->set_rejoined_step(started_.first_step());
  }
  if (core_.steps()) activity->set_steps_made(*core_.steps());
  exchange_->AddActivity(activity);
}

}  // namespace strata::worker
