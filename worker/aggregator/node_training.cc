#include "worker/aggregator/node_training.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/cores.h"
#include "common/counted.h"
#include "common/fork_join.h"
#include "common/job/arena.h"
#include "common/job/connections.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/log.h"
#include "common/require.h"
#include "kernels/device/device.h"
#include "kernels/kernels.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/arenas.h"
#include "worker/aggregator/core/node_arenas.h"
#include "worker/aggregator/device/copy_in_parts.h"
#include "worker/aggregator/device/device_arenas.h"
#include "worker/aggregator/node_endpoint.h"
#include "worker/contract/launch.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/peerless_core.h"
#include "worker/exchange/create_exchange.h"

namespace strata::worker {
namespace {

uint32_t Helpers(const NodeTraining::Parts& parts) {
  if (parts.helpers.has_value()) return *parts.helpers;
  const uint32_t ranks = parts.launch.local_ranks(), cores = UsableCores();
  return parts.devices.empty() ? HelpersFor(ranks, cores) : CopyHelpersFor(ranks, cores);
}

// The dependencies of arenas; all outlive them.
struct ArenasOf {
  const proto::Job& job;
  NodeMemory* memory = nullptr;
  AggregatorCore* core = nullptr;
  ForkJoin* helpers = nullptr;
};

// Creates arenas in the node's shared memory. `source`: see NodeArenasOptions.
std::unique_ptr<NodeArenas> CreateNodeArenas(const ArenasOf& of, const ChunkMap& map,
                                             std::shared_ptr<BlockSource> source) {
  const NodeArenasOptions options{.source = std::move(source),
                                  .lends_gradients = MayLendGradients(of.job),
                                  .helpers = of.helpers,
                                  .cores = UsableCores()};
  return std::make_unique<NodeArenas>(of.memory, of.core, map, kernels::Cpu(), options);
}

// Creates arenas in the memory of `devices`, given by local rank, or, if there are none, in shared
// memory. `exchange`: the options of the job's exchange, which are adapted to the arenas. `wake`:
// see DeviceArenasOptions. Errors: those of DeviceArenas::Create.
absl::StatusOr<std::unique_ptr<Arenas>> CreateArenas(
    const ArenasOf& of, const ChunkMap& map, std::shared_ptr<BlockSource> source,
    const CoreOptions& exchange, const std::vector<std::shared_ptr<device::Device>>& devices,
    std::function<void()> wake) {
  if (devices.empty()) return CreateNodeArenas(of, map, std::move(source));
  auto arenas =
      DeviceArenas::Create(of.memory, of.core, map,
                           {.devices = devices,
                            .wake = std::move(wake),
                            .ranks_add_up = of.job.node_sum() == proto::NodeSum::NCCL,
                            .encodes_for = exchange.takes_payloads ? &exchange.record : nullptr,
                            .node = exchange.node,
                            .trace = exchange.trace,
                            .source = std::move(source),
                            .helpers = of.helpers});
  if (!arenas.ok()) return arenas.status();
  return *std::move(arenas);
}

// "seeding", "training", "finishing"
const char* PhaseName(Exchange::Phase phase) {
  switch (phase) {
    case Exchange::Phase::kSeeding:
      return "seeding";
    case Exchange::Phase::kTraining:
      return "training";
    default:
      return "finishing";
  }
}

// Describes the peers of a node: "over 2 shards", "with 1 other node, RING, summed by NCCL".
std::string WithWhom(const proto::JobRecord& record) {
  const proto::Job& job = record.job();
  if (job.exchange() == proto::Job::NCCL) {
    return absl::StrCat("with ", Counted(job.ranks() - 1, "other rank"), ", by NCCL");
  }
  const std::string summed = job.node_sum() == proto::NodeSum::NCCL ? ", summed by NCCL" : "";
  if (job.exchange() != proto::Job::RING) {
    return absl::StrCat("over ", Counted(record.placement().shard_endpoints_size(), "shard"),
                        summed);
  }
  return absl::StrCat("with ", Counted(record.view().nodes_size() - 1, "other node"), ", ",
                      proto::AllReduce::Algorithm_Name(record.ring().algorithm()), summed);
}

constexpr auto kRelaxed = std::memory_order_relaxed;

// Returns whether nothing was pushed or answered since they were shown.
bool Shows(const NodeHeader& header, const ExchangeCounters& counters) {
  return header.pushes.load(kRelaxed) == counters.pushes &&
         header.bytes_answered.load(kRelaxed) == counters.bytes_answered;
}

// Shows the exchange's counters to the node's ranks.
void ShowCounters(const ExchangeCounters& counters, uint64_t pushes_during_backward,
                  absl::Duration exchange, NodeHeader* header) {
  header->exchange_us.store(absl::ToInt64Microseconds(exchange), kRelaxed);
  header->bytes_pushed.store(counters.bytes_pushed, kRelaxed);
  header->bytes_answered.store(counters.bytes_answered, kRelaxed);
  header->pushes.store(counters.pushes, kRelaxed);
  header->pushes_during_backward.store(pushes_during_backward, kRelaxed);
  static_assert(kStalenessBins == kNodeStalenessBins);
  for (size_t i = 0; i < kStalenessBins; ++i) {
    header->staleness[i].store(counters.staleness[i], kRelaxed);
  }
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
    exchange_ = WithoutPeers(parts_.exchange ? parts_.exchange(arenas.get())
                                             : std::make_unique<RanksCore>(record.resume().step()),
                             parts_.wake_fd, parts_.clock);
    arenas_ = std::move(arenas);
    return absl::OkStatus();
  }
  if (IsMeanOfOneNode(record)) {
    std::unique_ptr<NodeArenas> arenas = CreateNodeArenas(of, map, nullptr);
    exchange_ = WithoutPeers(std::make_unique<OneNodeCore>(arenas.get(), map.chunks()),
                             parts_.wake_fd, parts_.clock);
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
      // The residual from the checkpoint is restored on the host.
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
  return record.layout().tables().empty() ? absl::OkStatus() : JoinRows(core);
}

absl::Status NodeTraining::JoinRows(const CoreOptions& options) {
  absl::StatusOr<std::unique_ptr<RowsCore>> core = RowsCore::Create(options);
  if (!core.ok()) return core.status();
  rows_core_ = core->get();
  exchange_->Add(*std::move(core));
  rows_.emplace(RankId(parts_.launch.first_rank()), &memory_, rows_core_);
  return absl::OkStatus();
}

absl::StatusOr<bool> NodeTraining::LookAtRows() {
  if (!rows_ || phase_ != Phase::kTraining) return false;
  absl::StatusOr<bool> any = false;
  const absl::Status status = exchange_->RunBeside([&](absl::Time now, CoreActions* actions) {
    any = rows_->Look(now, actions);
    return any.status();
  });
  if (!status.ok()) return status;
  return any;
}

void NodeTraining::GiveRows() {
  if (!rows_) return;
  rows_->GiveFound();
  const uint64_t refused = rows_core_->TakeRefused();
  if (refused == 0 || std::exchange(has_said_full_, true)) return;
  LogWarning(
      "job %d node %d: tables have no room for %d new rows of a step, which keep their "
      "initial values: their capacity is too small",
      parts_.launch.record().job_id(), parts_.launch.node(), refused);
}

absl::Status NodeTraining::MoveChunks(absl::Duration timeout) {
  NodeHeader& header = memory_.header();
  // A rank that publishes after this store sees it and rings; one that published before is found by
  // the following check.
  header.aggregator_asleep.store(1);
  const absl::StatusOr<bool> chunks = phase_ >= Phase::kTraining ? intake_->Look() : false;
  if (!chunks.ok()) return chunks.status();
  const absl::StatusOr<bool> rows = LookAtRows();
  if (!rows.ok()) return rows.status();
  const bool any = *chunks || *rows;
  if (any) header.aggregator_asleep.store(0);
  NoteBusy();
  const absl::Status status = exchange_->Poll(any ? absl::ZeroDuration() : timeout);
  header.aggregator_asleep.store(0);
  GiveRows();
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
  const bool finished = exchange_->phase() == Exchange::Phase::kFinished &&
                        (rows_core_ == nullptr || rows_core_->is_finished());
  if (phase_ == Phase::kFinishing && finished && !arenas_->busy()) ReleaseRanks();
  return absl::OkStatus();
}

// If a replacement process finds all rounds of local steps pushed, the last one may have had fewer
// steps than a round has.
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
    intake_->LookAgain();  // a rank may have continued already
    if (absl::Status status = core_.OnLeave(r, *ranks_.left()[r]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Once the arenas have passed on everything published before the last rank left.
absl::Status NodeTraining::FinishExchange() {
  if (absl::Status status = intake_->Look().status(); !status.ok()) return status;
  if (arenas_->busy() || (rows_ && !rows_->is_idle())) return absl::OkStatus();
  phase_ = Phase::kFinishing;
  if (rows_core_ != nullptr) {
    const absl::Status status = exchange_->RunBeside([&](absl::Time now, CoreActions* actions) {
      rows_core_->Finish(now, actions);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
  }
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
  if (rows_core_ != nullptr) rows_core_->AddActivity(parts_.clock->Now(), activity);
}

absl::Status NodeTraining::Hear(const proto::AgentMessage& message) {
  if (message.has_move_shard()) {
    const proto::MoveShard& move = message.move_shard();
    return exchange_->OnShardMoved({ShardId(move.shard()), move.endpoint(), move.generation()});
  }
  if (message.has_propose_view()) {
    proposed_ = std::max(proposed_.value_or(0), message.propose_view().number());
    Promise();
  }
  if (message.has_stop_ring()) return StopRing(message.stop_ring().number());
  if (message.has_form_ring()) return FormRing(message.form_ring());
  return message.has_change_view() ? ChangeView(message.change_view()) : absl::OkStatus();
}

void NodeTraining::Promise() {
  if (phase_ != Phase::kTraining || !proposed_) return;
  const uint32_t number = *std::exchange(proposed_, std::nullopt);
  const std::optional<uint64_t> from =
      gate_.Promise(number, [this](uint64_t until) { return Close(until); });
  if (!from) return;
  proto::ViewPromised* const promised = answers_.emplace_back().mutable_view_promised();
  promised->set_node(parts_.launch.node());
  promised->set_number(number);
  promised->set_from_clock(*from);
}

absl::Status NodeTraining::StopRing(uint32_t number) {
  proto::RingStopped answer;
  answer.set_node(parts_.launch.node());
  answer.set_number(number);
  absl::StatusOr<std::optional<RanksRing::Answer>> stopped =
      absl::FailedPreconditionError("its first weights are not there yet");
  const bool is_news = stopped_ != number || asked_ == number;
  if (ranks_train()) {
    const std::optional<uint64_t> from = gate_.Promise(
        number, [this](uint64_t until) { return Close(until); }, ViewGate::kNoMargin);
    if (!from) return absl::OkStatus();  // outdated
    answer.set_from_clock(*from);
    stopped = StopExchange(number);
  }
  if (stopped.ok()) {
    stopped_ = number;
    asked_ = *stopped ? 0 : number;
    if (!*stopped) return absl::OkStatus();
    const StoppedRing& ring = (*stopped)->ring;
    if (is_news) {
      LogInfo("job %d node %d: stops after %d steps, for ring %d", parts_.launch.record().job_id(),
              parts_.launch.node(), ring.clock, number);
    }
    answer.set_clock(ring.clock);
    answer.set_is_over(ring.is_over);
    answer.set_nccl_id((*stopped)->nccl_id);
  } else if (absl::IsFailedPrecondition(stopped.status())) {
    asked_ = 0;
    answer.set_error(absl::StrFormat("node %d (%s): %s", parts_.launch.node(),
                                     parts_.launch.node_name(), stopped.status().message()));
  } else {
    return stopped.status();
  }
  *answers_.emplace_back().mutable_ring_stopped() = answer;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RanksRing::Answer>> NodeTraining::StopExchange(uint32_t number) {
  if (ranks_ring_) {
    ranks_ring_->Stop(number);
    return ranks_ring_->Gather();
  }
  const absl::StatusOr<StoppedRing> stopped = exchange_->StopRing(number);
  if (!stopped.ok()) return stopped.status();
  return RanksRing::Answer{.ring = *stopped, .nccl_id = ""};
}

// The ring exists before the ranks continue, and gets the sums of the steps that they have been
// told of.
absl::Status NodeTraining::FormRing(const proto::FormRing& forming) {
  const proto::ViewChange& change = forming.change();
  if (change.number() <= gate_.views().number()) return absl::OkStatus();  // outdated
  if (absl::Status formed = exchange_->FormRing(forming); !formed.ok()) return formed;
  if (absl::Status taken = TakeChange(change); !taken.ok()) return taken;
  if (change.number() >= stopped_) asked_ = stopped_ = 0;
  if (!forming.is_over()) {
    if (absl::Status fits = CheckMembers(forming); !fits.ok()) return fits;
  }
  return ranks_ring_ ? ranks_ring_->Form(forming) : absl::OkStatus();
}

// Ranks share samples among the nodes whose gradients are summed.
absl::Status NodeTraining::CheckMembers(const proto::FormRing& forming) const {
  const Views& views = gate_.views();
  std::vector<uint32_t> members(forming.nodes().begin(), forming.nodes().end()), known;
  for (const NodeId node : views.NodesAt(views.newest_clock())) known.push_back(node.value());
  std::sort(members.begin(), members.end());
  std::sort(known.begin(), known.end());
  if (members == known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "ring %d has nodes %s, but by the changes that this node knows the job has %s",
      forming.change().number(), absl::StrJoin(members, ", "), absl::StrJoin(known, ", ")));
}

uint64_t NodeTraining::Close(uint64_t until) {
  memory_.header().views_closed_at.store(until == ViewGate::kOpen ? 0 : until);
  uint64_t told = 0;
  for (uint32_t r = 0; r < leave_taken_.size(); ++r) {
    told = std::max(told, memory_.rank(r).told.load());
    RingRank(&memory_.rank(r));
  }
  return told;
}

absl::Status NodeTraining::ChangeView(const proto::ViewChange& change) {
  if (absl::Status taken = TakeChange(change); !taken.ok()) return taken;
  const std::optional<uint64_t> leaves_at = gate_.views().LeavesAt(NodeId(parts_.launch.node()));
  if (leaves_at) exchange_->LeaveAt(*leaves_at);
  return absl::OkStatus();
}

absl::Status NodeTraining::TakeChange(const proto::ViewChange& change) {
  const uint32_t before = gate_.views().number();
  absl::Status taken = gate_.Take(change, Close(gate_.open_until()));
  if (!taken.ok()) return taken;
  const bool is_news = gate_.views().number() != before;
  if (is_news && (phase_ == Phase::kTraining || phase_ == Phase::kFinishing)) {
    ranks_.SendChange(change);
    memory_.header().view_number.store(change.number());
  }
  Close(gate_.open_until());
  return absl::OkStatus();
}

bool NodeTraining::ranks_await_view() const {
  for (uint32_t r = 0; r < leave_taken_.size(); ++r) {
    if (memory_.rank(r).awaits_view.load() != 0) return true;
  }
  return false;
}

std::string NodeTraining::PhaseText() const {
  if (stopped_ > 0) return "waiting for a ring without a node that was lost";
  return ranks_await_view() ? "waiting for a change of the job's nodes"
                            : PhaseName(exchange_->phase());
}

void RanksRing::Stop(uint32_t number) {
  std::atomic<uint32_t>& asked = memory_->header().ring_asked;
  asked.store(std::max(asked.load(), number));
}

absl::StatusOr<std::optional<RanksRing::Answer>> RanksRing::Gather() const {
  const uint32_t asked = memory_->header().ring_asked.load();
  Answer answer;
  for (size_t r = 0; r < ranks_->left().size(); ++r) {
    const proto::RankStopped& stopped = ranks_->stopped()[r];
    if (const std::optional<uint64_t>& steps = ranks_->left()[r]) {
      answer.ring.clock = std::max(answer.ring.clock, *steps);
      answer.ring.is_over = true;
      continue;
    }
    if (stopped.number() < asked) return std::nullopt;
    if (!stopped.has_begun()) {
      return absl::FailedPreconditionError("its ranks have not agreed on the first weights");
    }
    answer.ring.clock = std::max(answer.ring.clock, stopped.steps());
    answer.ring.is_over = answer.ring.is_over || stopped.is_over();
    if (r == 0) answer.nccl_id = stopped.nccl_id();
  }
  return answer;
}

absl::Status RanksRing::Form(const proto::FormRing& forming) {
  proto::RankRing ring;
  ring.set_number(forming.change().number());
  ring.set_nccl_id(forming.nccl_id());
  ring.set_is_over(forming.is_over());
  std::optional<uint32_t> first;
  for (const uint32_t member : forming.nodes()) {
    const auto node = std::find_if(view_.nodes().begin(), view_.nodes().end(),
                                   [&](const auto& one) { return one.node() == member; });
    if (node == view_.nodes().end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "ring %d has node %d, which the job does not have", ring.number(), member));
    }
    if (NodeId(member) == node_) first = ring.ranks();
    ring.set_ranks(ring.ranks() + node->ranks());
  }
  if (!first) {
    return absl::InvalidArgumentError(
        absl::StrFormat("ring %d does not have node %d", ring.number(), node_.value()));
  }
  for (uint32_t r = 0; r < ranks_->left().size(); ++r) {
    ring.set_rank(*first + r);
    ranks_->SendRing(r, ring);
  }
  return absl::OkStatus();
}

absl::Status ChunkIntake::LookAtPublished(bool* any) {
  uint64_t published = 0;
  for (uint32_t r = 0; r < ready_.size(); ++r) {
    const RankBlock& rank = memory_.rank(r);
    published_[r] = rank.published.load();
    published += published_[r] + rank.reduced.load();
  }
  if (published == published_seen_) return absl::OkStatus();
  if (absl::Status status = core_.OnPublished(published_); !status.ok()) return status;
  published_seen_ = published;
  for (uint32_t c = 0; c < core_.chunks(); ++c) {
    if (!core_.collecting(ChunkId(c))) continue;
    for (uint32_t r = 0; r < ready_.size(); ++r) ready_[r] = memory_.ready(r, c).load();
    const absl::StatusOr<bool> complete = core_.OnReady(ChunkId(c), ready_);
    if (!complete.ok()) return complete.status();
    if (!*complete) continue;
    if (absl::Status status = CheckRates(core_.clock(ChunkId(c))); !status.ok()) return status;
    const absl::StatusOr<bool> summed = arenas_.BeginSum(ChunkId(c), core_.clock(ChunkId(c)));
    if (!summed.ok()) return summed.status();
    if (!*summed) continue;
    *any = true;
    if (absl::Status status = exchange_.Submit(ChunkId(c)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ChunkIntake::CheckRates(uint64_t step) {
  if (step < rated_) return absl::OkStatus();
  rated_ = step + 1;
  for (uint32_t r = 0; r < rates_.size(); ++r) {
    rates_[r] = memory_.rank(r).rates[step % kSampleSlots].load(std::memory_order_relaxed);
  }
  return core_.OnRates(step, rates_);
}

absl::StatusOr<bool> ChunkIntake::Look() {
  const bool was_busy = arenas_.busy();
  bool any = false;
  if (absl::Status status = LookAtPublished(&any); !status.ok()) return status;
  summed_.clear();
  if (absl::Status status = arenas_.Poll(&summed_); !status.ok()) return status;
  for (ChunkId chunk : summed_) {
    if (absl::Status status = exchange_.Submit(chunk); !status.ok()) return status;
  }
  return any || !summed_.empty() || (was_busy && !arenas_.busy());
}

bool IsMeanOfOneNode(const proto::JobRecord& record) {
  const proto::Job& job = record.job();
  const proto::Lazy& lazy = job.consistency().lazy();
  return job.exchange() == proto::Job::RING && record.view().nodes_size() == 1 &&
         job.optimizer().has_mean() && job.device() == proto::Job::CPU && lazy.local_steps() == 0 &&
         !lazy.double_buffering() && job.trace().steps() == 0 && !job.has_checkpoint() &&
         !record.has_resume();
}

}  // namespace strata::worker
