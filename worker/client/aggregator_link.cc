#include "worker/client/aggregator_link.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/cores.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "common/require.h"
#include "common/wire/frame.h"
#include "worker/contract/launch.h"
#include "worker/contract/rank_socket.h"

namespace strata::client {

namespace {

using worker::NodeHeader;
using worker::NodeState;
using worker::RankBlock;

constexpr absl::Duration kConnectDeadline = absl::Seconds(30);
// Before and after training the aggregator answers when all nodes and servers of the job are ready,
// which takes as long as the slowest needs to start or to end. If one of them fails, the job is
// stopped and the aggregator reports it; if the aggregator fails, its socket closes. So these waits
// need no limit of their own.
constexpr absl::Duration kForOthers = absl::InfiniteDuration();
constexpr absl::Duration kSpin = absl::Microseconds(20);

}  // namespace

absl::StatusOr<std::unique_ptr<AggregatorLink>> AggregatorLink::Connect(
    const proto::Launch& launch, CreateNodeSum create_node_sum, absl::Duration answer_deadline) {
  if (launch.local_rank() >= launch.local_ranks()) {
    return absl::InvalidArgumentError(absl::StrFormat("local rank %d of %d in the launch",
                                                      launch.local_rank(), launch.local_ranks()));
  }
  if (worker::RanksAddUp(launch)) {
    STRATA_REQUIRE(create_node_sum != nullptr);
    absl::Status status = worker::ExpectOwnDevices(launch, "node_sum: NCCL");
    if (!status.ok()) return status;
  }
  std::shared_ptr<device::Device> device;
  if (worker::AggregatorUsesDevices(launch.record().job())) {
    auto used = worker::UseDevice(launch, launch.local_rank());
    if (!used.ok()) return used.status();
    device = *std::move(used);
  }
  absl::StatusOr<UniqueFd> socket = worker::ConnectTo(launch.aggregator_socket(), kConnectDeadline);
  if (!socket.ok()) return socket.status();
  auto link = absl::WrapUnique(
      new AggregatorLink(launch, create_node_sum, *std::move(socket), answer_deadline));
  link->device_ = std::move(device);
  return link;
}

AggregatorLink::AggregatorLink(const proto::Launch& launch, CreateNodeSum create_node_sum,
                               UniqueFd socket, absl::Duration answer_deadline)
    : launch_(launch),
      create_node_sum_(create_node_sum),
      channel_(std::move(socket)),
      answer_deadline_(answer_deadline),
      // Only if every rank of the node and the aggregator have a core each.
      may_spin_(UsableCores() > launch.local_ranks() + 1) {}

absl::Status AggregatorLink::Gone() const {
  return absl::UnavailableError(absl::StrFormat("the aggregator of node %d (%s) is gone",
                                                launch_.node(), launch_.node_name()));
}

absl::Status AggregatorLink::Say(const proto::RankMessage& message) {
  return channel_.Send(message).ok() ? absl::OkStatus() : Gone();
}

absl::StatusOr<proto::AggregatorMessage> AggregatorLink::Hear(absl::Duration timeout) {
  proto::AggregatorMessage message;
  absl::Status status;
  const absl::Time deadline = absl::Now() + timeout;
  do {
    if (absl::Status wanted = AskProgram(); !wanted.ok()) return wanted;
    status =
        channel_.Receive(&message, std::min(deadline - absl::Now(), absl::Milliseconds(kSleepMs)));
  } while (absl::IsDeadlineExceeded(status) && absl::Now() < deadline);
  if (absl::IsDeadlineExceeded(status)) {
    return absl::UnavailableError(
        absl::StrFormat("the aggregator of node %d (%s) has not answered within %s", launch_.node(),
                        launch_.node_name(), absl::FormatDuration(timeout)));
  }
  if (!status.ok()) return Gone();
  if (message.has_stopped()) return absl::UnavailableError(message.stopped());
  return message;
}

absl::StatusOr<ArenaView> AggregatorLink::Allocate(const proto::Layout& layout) {
  proto::RankMessage message;
  proto::Attach* attach = message.mutable_attach();
  attach->set_protocol_version(kProtocolVersion);
  attach->set_token(launch_.record().token());
  attach->set_local_rank(launch_.local_rank());
  *attach->mutable_layout() = layout;
  if (absl::Status status = Say(message); !status.ok()) return status;
  absl::StatusOr<worker::Descriptors> descriptors = worker::ReceiveDescriptors(channel_.fd());
  if (!descriptors.ok()) return Gone();
  if (!descriptors->memory.valid() || !descriptors->doorbell.valid()) {
    absl::Status why = Hear(answer_deadline_).status();
    return why.ok() ? Gone() : why;
  }
  absl::StatusOr<std::unique_ptr<worker::NodeMemory>> memory =
      worker::NodeMemory::Attach(std::move(descriptors->memory), layout.elements(),
                                 launch_.local_ranks(), launch_.local_rank(),
                                 /*has_tables=*/layout.tables_size() > 0);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  doorbell_ = std::make_unique<EventFd>(EventFd::Adopt(std::move(descriptors->doorbell)));
  return ArenaView{absl::MakeSpan(memory_->weights(), layout.elements()),
                   absl::MakeSpan(memory_->gradients(launch_.local_rank()), layout.elements())};
}

absl::StatusOr<RunFacts> AggregatorLink::Start(const JobFacts& facts) {
  if (launch_.local_rank() == 0) {
    if (absl::Status status = memory_->OfferWeights(); !status.ok()) return status;
  }
  if (worker::RanksAddUp(launch_) && launch_.local_rank() == 0) {
    absl::StatusOr<std::string> id = device_->NewCommunicatorId();
    if (!id.ok()) return id.status();
    nccl_id_ = *std::move(id);
  }
  proto::RankMessage message;
  proto::Offer* offer = message.mutable_offer();
  offer->set_takes_first_weights(facts.takes_first_weights);
  if (!facts.takes_first_weights) {
    offer->set_weights_checksum(
        wire::Checksum({reinterpret_cast<const std::byte*>(memory_->weights()),
                        memory_->offsets().elements * sizeof(float)}));
  }
  offer->set_samples_per_epoch(facts.samples_per_epoch);
  offer->set_total_steps(facts.total_steps);
  offer->set_nccl_id(nccl_id_);
  offer->set_says_rates(facts.says_rates);
  offer->set_can_resume(facts.can_resume);
  offer->set_keeps_state(facts.keeps_state);
  offer->set_samples_per_rank(facts.samples_per_rank);
  offer->set_marks_absent(facts.marks_absent);
  if (!facts.optimizer.empty()) {
    absl::StatusOr<proto::Optimizer> named = ParseOptimizer(facts.optimizer);
    if (!named.ok()) return named.status();
    *offer->mutable_optimizer() = *std::move(named);
  }
  if (absl::Status status = Say(message); !status.ok()) return status;
  absl::StatusOr<proto::AggregatorMessage> answer = Hear(kForOthers);
  if (!answer.ok()) return answer.status();
  const uint64_t first_step = answer->started().first_step();
  if (first_step > 0 && !facts.can_resume) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the job goes on from a checkpoint with step %d, but the program has not said that it can "
        "(JobFacts::can_resume)",
        first_step));
  }
  if (absl::Status status = memory_->ShareWeights(); !status.ok()) return status;
  chunks_ = memory_->header().chunks.load();
  nccl_id_ = answer->started().nccl_id();
  RunFacts run{.chunk_elements = answer->started().chunk_elements(),
               .samples_per_epoch = answer->started().samples_per_epoch(),
               .first_step = first_step,
               .view_changes = {answer->started().view_changes().begin(),
                                answer->started().view_changes().end()}};
  if (absl::Status status = OpenArenas(answer->started(), &run); !status.ok()) return status;
  if (!worker::RanksAddUp(launch_)) return run;
  if (absl::Status status = JoinRanks(run); !status.ok()) return status;
  return run;
}

absl::Status AggregatorLink::OpenArenas(const proto::Started& started, RunFacts* facts) {
  if (device_ == nullptr) return absl::OkStatus();
  facts->device = device_;
  for (auto [bytes, memory] : {std::pair(&started.weights(), &facts->weights),
                               std::pair(&started.gradients(), &facts->gradients)}) {
    const std::optional<device::SharedMemory> shared = device::ParseSharedMemory(*bytes);
    if (!shared) {
      return absl::InternalError("the aggregator does not say where the arenas are on the device");
    }
    absl::StatusOr<device::Memory> opened = device_->Open(*shared);
    if (!opened.ok()) return opened.status();
    *memory = *std::move(opened);
  }
  return absl::OkStatus();
}

absl::Status AggregatorLink::JoinRanks(const RunFacts& facts) {
  const device::StillWanted wanted = [this] { return CheckWanted(); };
  absl::StatusOr<std::unique_ptr<device::Communicator>> communicator =
      device_->NewCommunicator(nccl_id_, launch_.local_ranks(), launch_.local_rank(), wanted);
  if (!communicator.ok()) return communicator.status();
  NodeSumCalls calls = {.computed = [this](uint64_t step) { ShowPublished(1, chunks_, step); },
                        .reduced =
                            [this](ChunkId chunk, uint64_t step) {
                              const absl::StatusOr<bool> complete = Hand(chunk, step);
                              if (!complete.ok()) return complete.status();
                              Self().reduced.fetch_add(1);
                              if (*complete) Ring();
                              return absl::OkStatus();
                            },
                        .still_wanted = [this] { return CheckAlive(); },
                        .caller_waits = wanted};
  absl::StatusOr<std::unique_ptr<NodeSum>> node_sum =
      create_node_sum_({.device = device_,
                        .communicator = *std::move(communicator),
                        .local_rank = launch_.local_rank(),
                        .local_ranks = launch_.local_ranks(),
                        .gradients = facts.gradients,
                        .map = ChunkMap(memory_->offsets().elements, facts.chunk_elements),
                        .job = launch_.record().job(),
                        .calls = std::move(calls)});
  if (!node_sum.ok()) return node_sum.status();
  node_sum_ = *std::move(node_sum);
  ShowDeviceBytes(node_sum_->device_bytes());
  return absl::OkStatus();
}

void AggregatorLink::ComputeIn(device::Stream* stream) {
  stream_ = stream;
  if (publisher_ != nullptr || node_sum_ != nullptr || stream == nullptr) return;
  publisher_ = std::make_unique<DevicePublisher>(
      device_,
      [this](absl::Span<const ChunkId> chunks, uint64_t step) { return PublishNow(chunks, step); });
}

absl::Status AggregatorLink::Drain() {
  if (node_sum_ != nullptr) return node_sum_->Drain();
  if (publisher_ == nullptr) return absl::OkStatus();
  return publisher_->Drain([this] { return AskProgram(); });
}

absl::Status AggregatorLink::BeginStep(uint64_t step, uint32_t samples, float rate) {
  if (absl::Status status = Drain(); !status.ok()) return status;
  published_ = 0;
  // Made visible by the stores to ready.
  const size_t slot = step % worker::kSampleSlots;
  Self().samples[slot].store(samples, std::memory_order_relaxed);
  Self().rates[slot].store(rate, std::memory_order_relaxed);
  return absl::OkStatus();
}

bool AggregatorLink::Landed(ChunkId chunk, uint64_t step) const {
  return memory_->landed(chunk.value()).load(std::memory_order_acquire) > step;
}

absl::Status AggregatorLink::CheckAlive() {
  NodeHeader& header = memory_->header();
  if (header.state.load() == NodeState::kStopped) return absl::UnavailableError(header.reason);
  pollfd look{channel_.fd(), POLLIN | POLLRDHUP, 0};
  if (poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0) {
    return header.state.load() == NodeState::kStopped ? absl::UnavailableError(header.reason)
                                                      : Gone();
  }
  return absl::OkStatus();
}

absl::Status AggregatorLink::AskProgram() {
  return still_wanted_ == nullptr ? absl::OkStatus() : still_wanted_();
}

absl::Status AggregatorLink::CheckWanted() {
  absl::Status alive = CheckAlive();
  return alive.ok() ? AskProgram() : alive;
}

absl::Status AggregatorLink::AwaitWeights(ChunkId chunk, uint64_t step) {
  if (Landed(chunk, step)) return absl::OkStatus();
  if (may_spin_) {
    const absl::Time until = absl::Now() + kSpin;
    while (absl::Now() < until) {
      if (Landed(chunk, step)) return absl::OkStatus();
    }
  }
  RankBlock& self = Self();
  while (true) {
    const uint32_t seen = self.bell.load();
    // Pairs with NodeArenas::Land, which stores landed and then reads this; we do the reverse.
    self.waits_for.store(chunk.value() + 1);
    absl::Status alive = absl::OkStatus();
    const bool landed = memory_->landed(chunk.value()).load() > step;
    if (!landed && (alive = CheckWanted()).ok()) worker::SleepUntilRung(&self, seen, kSleepMs);
    self.waits_for.store(0);
    if (landed || !alive.ok()) return alive;
  }
}

absl::Status AggregatorLink::AwaitRows() {
  const worker::RowSlot& slot = memory_->row_slot(launch_.local_rank());
  const uint64_t asked = slot.asked.load(std::memory_order_relaxed);
  const auto is_answered = [&] { return slot.answered.load() == asked; };
  const absl::Time until = absl::Now() + (may_spin_ ? kSpin : absl::ZeroDuration());
  do {
    if (is_answered()) return absl::OkStatus();
  } while (absl::Now() < until);
  RankBlock& self = Self();
  while (true) {
    const uint32_t seen = self.bell.load();
    if (is_answered()) return absl::OkStatus();
    if (absl::Status alive = CheckWanted(); !alive.ok()) return alive;
    worker::SleepUntilRung(&self, seen, kSleepMs);
  }
}

void AggregatorLink::AskForRows() {
  memory_->row_slot(launch_.local_rank()).asked.fetch_add(1);
  Ring();
}

template <typename Ask>
absl::Status AggregatorLink::AskInParts(uint32_t table, uint32_t columns,
                                        absl::Span<const uint64_t> ids, const Ask& ask) {
  const size_t rows_max = worker::RowSlot::RowsMax(columns);
  for (; !ids.empty(); ids.remove_prefix(std::min(ids.size(), rows_max))) {
    if (absl::Status status = AwaitRows(); !status.ok()) return status;
    const absl::Span<const uint64_t> part = ids.first(std::min(ids.size(), rows_max));
    worker::RowSlot& slot = memory_->row_slot(launch_.local_rank());
    slot.table = table;
    slot.rows = static_cast<uint32_t>(part.size());
    std::copy(part.begin(), part.end(), slot.ids());
    if (absl::Status status = ask(slot, part.size() * columns); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status AggregatorLink::LookUpRows(uint32_t table, uint32_t columns,
                                        absl::Span<const uint64_t> ids, bool of_step, float* to) {
  return AskInParts(table, columns, ids, [&](worker::RowSlot& slot, size_t values) {
    slot.ask = of_step ? worker::RowSlot::Ask::kTake : worker::RowSlot::Ask::kLookUp;
    AskForRows();
    absl::Status found = AwaitRows();
    if (found.ok()) to = std::copy_n(slot.values(slot.rows), values, to);
    return found;
  });
}

absl::Status AggregatorLink::AddRows(uint32_t table, uint32_t columns, float rate,
                                     absl::Span<const uint64_t> ids, const float* gradients) {
  return AskInParts(table, columns, ids, [&](worker::RowSlot& slot, size_t values) {
    slot.ask = worker::RowSlot::Ask::kAdd;
    slot.rate = rate;
    std::copy_n(gradients, values, slot.values(slot.rows));
    gradients += values;
    AskForRows();
    return absl::OkStatus();
  });
}

absl::Status AggregatorLink::WantRows(uint32_t table, uint32_t columns,
                                      absl::Span<const uint64_t> ids) {
  return AskInParts(table, columns, ids, [&](worker::RowSlot& slot, size_t) {
    slot.ask = worker::RowSlot::Ask::kWant;
    AskForRows();
    return absl::OkStatus();
  });
}

absl::Status AggregatorLink::EndRows(uint64_t step, uint32_t samples) {
  if (absl::Status status = AwaitRows(); !status.ok()) return status;
  worker::RowSlot& slot = memory_->row_slot(launch_.local_rank());
  slot.ask = worker::RowSlot::Ask::kEnd;
  slot.step = step;
  slot.samples = samples;
  AskForRows();
  return absl::OkStatus();
}

bool AggregatorLink::CompleteOnNode(ChunkId chunk, uint64_t step) const {
  for (uint32_t r = 0; r < launch_.local_ranks(); ++r) {
    if (memory_->ready(r, chunk.value()).load() <= step) return false;
  }
  return true;
}

absl::Status AggregatorLink::Publish(absl::Span<const ChunkId> chunks, uint64_t step) {
  if (node_sum_ != nullptr) return node_sum_->PublishAfter(stream_, chunks, step);
  if (stream_ != nullptr) return publisher_->PublishAfter(stream_, chunks, step);
  return PublishNow(chunks, step);
}

absl::Status AggregatorLink::PublishNow(absl::Span<const ChunkId> chunks, uint64_t step) {
  RankBlock& self = Self();
  bool complete = false;
  published_ += static_cast<uint32_t>(chunks.size());
  if (published_ == chunks_) self.complete.store(step + 1);
  for (ChunkId chunk : chunks) {
    const absl::StatusOr<bool> on_node = Hand(chunk, step);
    if (!on_node.ok()) return on_node.status();
    complete = complete || *on_node;
  }
  self.published.fetch_add(chunks.size());
  if (complete) Ring();
  return absl::OkStatus();
}

absl::StatusOr<bool> AggregatorLink::Hand(ChunkId chunk, uint64_t step) {
  if (memory_->consumed(chunk.value()).load(std::memory_order_acquire) != step) {
    return absl::InternalError(absl::StrFormat(
        "chunk %d is published for step %d before it is free", chunk.value(), step));
  }
  memory_->ready(launch_.local_rank(), chunk.value()).store(step + 1);
  return CompleteOnNode(chunk, step);
}

// The last rank to publish a chunk rings, and only if the aggregator sleeps.
void AggregatorLink::Ring() {
  std::atomic<uint32_t>& asleep = memory_->header().aggregator_asleep;
  if (asleep.load() != 0 && asleep.exchange(0) != 0) doorbell_->Notify();
}

void AggregatorLink::ShowPublished(size_t published, uint32_t chunks, uint64_t step) {
  RankBlock& self = Self();
  published_ += static_cast<uint32_t>(published);
  if (published_ == chunks) {
    self.complete.store(step + 1);
    published_ = 0;
  }
  self.published.fetch_add(published);
}

// All ranks of the node show the same; the later ones repeat it.
void AggregatorLink::ShowLanded(ChunkId chunk, uint64_t step) {
  std::atomic<uint64_t>& landed = memory_->landed(chunk.value());
  if (landed.load(std::memory_order_relaxed) <= step) landed.store(step + 1);
}

absl::Status AggregatorLink::Finish(uint64_t steps) {
  if (absl::Status status = Drain(); !status.ok()) return status;
  proto::RankMessage message;
  message.mutable_leave()->set_steps(steps);
  if (absl::Status status = Say(message); !status.ok()) return status;
  // After that, so that the aggregator knows of ranks that do not get here.
  if (absl::Status status = node_sum_ ? node_sum_->Finish() : absl::OkStatus(); !status.ok()) {
    return status;
  }
  while (true) {
    const absl::StatusOr<proto::AggregatorMessage> message = Hear(kForOthers);
    if (!message.ok()) return message.status();
    if (!Keep(*message)) break;
  }
  late_changes_.assign(changes_.begin(), changes_.end());
  return absl::OkStatus();
}

void AggregatorLink::SendTrace(AgentChannel* agent, bool all) {
  if (node_sum_ != nullptr) node_sum_->SendTrace(agent, all);
}

proto::NodeCounters AggregatorLink::Counters() const {
  proto::NodeCounters counters;
  if (!memory_) return counters;
  const NodeHeader& header = memory_->header();
  counters.set_bytes_pushed(header.bytes_pushed.load());
  counters.set_bytes_answered(header.bytes_answered.load());
  counters.set_pushes(header.pushes.load());
  counters.set_pushes_during_backward(header.pushes_during_backward.load());
  counters.set_exchange_s(1e-6 * static_cast<double>(header.exchange_us.load()));
  for (const std::atomic<uint64_t>& bin : header.staleness) counters.add_staleness(bin.load());
  return counters;
}

// Rings of ranks.

void AggregatorLink::SayStopped(const proto::RankStopped& stopped) {
  proto::RankMessage message;
  *message.mutable_stopped() = stopped;
  Say(message).IgnoreError();
}

absl::StatusOr<proto::RankRing> AggregatorLink::AwaitRing(const device::StillWanted& wanted) {
  while (true) {
    if (ring_ && ring_->number() >= ring_asked()) return *ring_;
    if (absl::Status status = wanted(); !status.ok()) return status;
    proto::AggregatorMessage message;
    const absl::Status heard = channel_.Receive(&message, absl::Milliseconds(kRingPollMs));
    if (absl::IsDeadlineExceeded(heard)) continue;
    if (!heard.ok()) return Gone();
    if (message.has_stopped()) return absl::UnavailableError(message.stopped());
    if (!Keep(message)) {
      return absl::InternalError("the aggregator does not say how the job's nodes go on");
    }
  }
}

// The ranks of each step.

absl::StatusOr<bool> AggregatorLink::LearnViews(uint64_t step, bool waits, Views* views) {
  worker::RankBlock& self = Self();
  worker::NodeHeader& header = memory_->header();
  while (true) {
    const uint32_t seen = self.bell.load();
    const uint64_t told = self.told.load();
    // Pairs with NodeTraining::Close, which stores where it closes and then reads this; we do the
    // reverse.
    self.told.store(std::max(told, step + 1));
    const uint64_t closed_at = header.views_closed_at.load();
    if (closed_at == 0 || step < closed_at) break;
    self.told.store(told);
    if (!waits) return false;
    self.awaits_view.store(1);
    const absl::Status wanted = CheckWanted();
    if (wanted.ok()) worker::SleepUntilRung(&self, seen, kSleepMs);
    self.awaits_view.store(0);
    if (!wanted.ok()) return wanted;
  }
  while (true) {
    for (; !changes_.empty(); changes_.pop_front()) {
      if (absl::Status added = views->Add(changes_.front()); !added.ok()) return added;
    }
    if (views->number() >= header.view_number.load()) return true;
    const absl::StatusOr<proto::AggregatorMessage> message = Hear(answer_deadline_);
    if (!message.ok()) return message.status();
    if (!Keep(*message)) {
      return absl::InternalError("the aggregator does not say how the job's nodes change");
    }
  }
}

bool AggregatorLink::Keep(const proto::AggregatorMessage& message) {
  if (message.has_change_view()) changes_.push_back(message.change_view());
  if (message.has_form_ring()) ring_ = message.form_ring();
  return message.has_change_view() || message.has_form_ring();
}

}  // namespace strata::client
