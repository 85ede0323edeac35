#include "worker/client/nccl/device_links.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/job/job.h"
#include "common/log.h"
#include "common/wire/frame.h"
#include "worker/client/local_link.h"
#include "worker/client/nccl/communicator_watch.h"
#include "worker/client/nccl/device_steps.h"
#include "worker/client/rank_link.h"
#include "worker/contract/launch.h"

namespace strata::nccl {

// The common part of this folder's two links.

// Replaces the client's arenas by those on the device.
inline void ShowArenas(const DeviceSteps& steps, client::RunFacts* run) {
  run->device = steps.device();
  run->weights = steps.weights_memory();
  run->gradients = steps.gradients_memory();
}

// Returns an event for the completion of `stream`'s work so far; null without a stream. It is made
// once and kept in `event`.
inline absl::StatusOr<const device::Event*> RecordIn(device::Stream* stream, device::Device* device,
                                                     std::unique_ptr<device::Event>* event) {
  if (stream == nullptr) return nullptr;
  if (*event == nullptr) {
    absl::StatusOr<std::unique_ptr<device::Event>> made = device->NewEvent();
    if (!made.ok()) return made.status();
    *event = *std::move(made);
  }
  if (absl::Status status = stream->Record(event->get()); !status.ok()) return status;
  return event->get();
}

namespace {

uint64_t HashOf(absl::Span<const float> floats) {
  return wire::Checksum(
      {reinterpret_cast<const std::byte*>(floats.data()), floats.size() * sizeof(float)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclLink>> NcclLink::Connect(const proto::Launch& launch) {
  if (absl::Status status = worker::ExpectOwnDevices(launch, "exchange: NCCL"); !status.ok())
    return status;
  absl::StatusOr<std::shared_ptr<device::Device>> device =
      worker::UseDevice(launch, launch.local_rank());
  if (!device.ok()) return device.status();
  absl::StatusOr<std::unique_ptr<client::AggregatorLink>> aggregator =
      client::AggregatorLink::Connect(launch, /*create_node_sum=*/nullptr);
  if (!aggregator.ok()) return aggregator.status();
  return absl::WrapUnique(new NcclLink(launch, *std::move(device), *std::move(aggregator)));
}

NcclLink::NcclLink(const proto::Launch& launch, std::shared_ptr<device::Device> device,
                   std::unique_ptr<client::AggregatorLink> aggregator)
    : launch_(launch), device_(std::move(device)), aggregator_(std::move(aggregator)) {}

absl::StatusOr<client::ArenaView> NcclLink::Allocate(const proto::Layout& layout) {
  layout_ = layout;
  absl::StatusOr<client::ArenaView> view = aggregator_->Allocate(layout);
  if (!view.ok()) return view.status();
  view_ = *view;
  return view;
}

absl::StatusOr<client::RunFacts> NcclLink::Start(const client::JobFacts& facts) {
  // Comparing what ranks offer ensures that all name the same optimizer.
  const absl::StatusOr<proto::Job> job = client::CompleteJob(launch_.record().job(), facts);
  if (!job.ok()) return job.status();
  if (DropsLost(*job)) {
    stops_.emplace(
        launch_.record().view().number(), [this] { return aggregator_->ring_asked(); },
        [this](const RingStops::Answer& answer) { Answer(answer); });
  }
  absl::StatusOr<std::unique_ptr<DeviceSteps>> steps = DeviceSteps::Create(
      device_, *job, layout_, [this] { return StillWanted(); }, facts.says_rates,
      [this] { return aggregator_->AskProgram(); }, stops_ ? &*stops_ : nullptr);
  if (!steps.ok()) return steps.status();
  steps_ = *std::move(steps);
  // The host's arenas must not be read after the aggregator's answer.
  absl::Status status = absl::OkStatus();
  if (!facts.takes_first_weights || launch_.rank() == 0) {
    status = steps_->TakeWeightsFrom(view_.weights.data());
  }
  if (!status.ok()) return status;
  if (launch_.rank() == 0) {
    absl::StatusOr<std::string> id = device_->NewCommunicatorId();
    if (!id.ok()) return id.status();
    aggregator_->OfferNcclId(*std::move(id));
  }
  absl::StatusOr<client::RunFacts> run = aggregator_->Start(facts);
  if (!run.ok()) return run.status();
  if (status = Begin(facts, *run); !status.ok()) return status;
  aggregator_->ShowDeviceBytes(steps_->device_bytes());
  ShowArenas(*steps_, &*run);
  return run;
}

absl::Status NcclLink::Begin(const client::JobFacts& facts, const client::RunFacts& run) {
  const uint32_t ranks = launch_.record().job().ranks();
  const device::StillWanted wanted = [this] {
    absl::Status status = StillWanted();
    return status.ok() ? aggregator_->AskProgram() : status;
  };
  absl::StatusOr<std::unique_ptr<device::Communicator>> communicator =
      device_->NewCommunicator(aggregator_->nccl_id(), ranks, launch_.rank(), wanted);
  if (!communicator.ok()) return communicator.status();
  absl::Status status =
      steps_->Begin(*std::move(communicator), ranks, run.chunk_elements, run.samples_per_epoch);
  if (status.ok()) status = Restore();
  if (status.ok()) {
    status = facts.takes_first_weights ? steps_->TakeWeightsOfRank0()
                                       : ExpectSameWeights("first weights");
  }
  if (status.ok() && stops_) stops_->Begin();
  return status;
}

absl::Status NcclLink::Restore() {
  const auto image = client::ReadArena(read_, layout_, steps_->states());
  if (!image.ok() || !*image) return image.status();
  return steps_->TakeFrom(**image);
}

// If any rank's weights differ, at least one finds that the sum is not its own value times their
// number.
absl::Status NcclLink::ExpectSameWeights(const char* which) {
  std::vector<float> weights(layout_.elements());
  if (absl::Status status = steps_->BringWeightsTo(weights.data()); !status.ok()) return status;
  const uint64_t hash = HashOf(weights);
  const absl::StatusOr<uint64_t> sum = steps_->Sum(hash);
  if (!sum.ok()) return sum.status();
  if (*sum == hash * steps_->ranks()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ranks have other ", which, " than one another"));
}

void NcclLink::ComputeIn(device::Stream* stream) { stream_ = stream; }

absl::Status NcclLink::BeginStep(uint64_t, uint32_t samples, float rate) {
  return InRings([&] { return steps_->BeginStep(samples, rate); });
}

absl::Status NcclLink::AwaitWeights(ChunkId chunk, uint64_t step) {
  absl::Status status = InRings([&] {
    return stream_ != nullptr ? steps_->WaitIn(stream_, chunk) : steps_->AwaitWeights(chunk);
  });
  if (!status.ok() || stream_ != nullptr) return status;
  aggregator_->ShowLanded(chunk, step);
  return absl::OkStatus();
}

absl::Status NcclLink::Publish(absl::Span<const ChunkId> chunks, uint64_t step) {
  const absl::StatusOr<const device::Event*> ready = RecordIn(stream_, device_.get(), &ready_);
  if (!ready.ok()) return ready.status();
  absl::Status status = InRings([&] { return steps_->Publish(chunks, step, *ready); });
  if (!status.ok()) return status;
  for (uint32_t c = 0; step > landed_ && c < steps_->chunks(); ++c) {
    aggregator_->ShowLanded(ChunkId(c), step);
  }
  landed_ = step;
  aggregator_->ShowPublished(chunks.size(), steps_->chunks(), step);
  return absl::OkStatus();
}

absl::Status NcclLink::Finish(uint64_t steps) {
  absl::Status status = InRings([&] { return steps_->AwaitAll(); });
  if (status.ok()) status = EndTogether();
  if (status.ok()) status = steps_->Finish();
  return status.ok() ? aggregator_->Finish(steps) : status;
}

void NcclLink::SendTrace(client::AgentChannel* agent, bool all) {
  if (steps_ != nullptr) steps_->SendTrace(agent, all);
}

proto::NodeCounters NcclLink::Counters() const {
  proto::NodeCounters counters;
  if (steps_ == nullptr) return counters;
  const uint64_t bytes = steps_->bytes_reduced() * launch_.local_ranks();
  counters.set_bytes_pushed(bytes);
  counters.set_bytes_answered(bytes);
  counters.set_pushes(steps_->chunks_reduced());
  return counters;
}

// Continuing without ranks that die.

namespace {

constexpr absl::Duration kLinkRingsLook = absl::Milliseconds(10);

}  // namespace

absl::Status NcclLink::StillWanted() {
  absl::Status status = aggregator_->CheckAlive();
  return status.ok() && stops_ ? stops_->Check() : status;
}

void NcclLink::Answer(const RingStops::Answer& answer) {
  proto::RankStopped stopped;
  stopped.set_number(answer.number);
  stopped.set_has_begun(answer.has_begun);
  stopped.set_steps(answer.steps);
  stopped.set_is_over(answer.is_over);
  if (launch_.local_rank() == 0) {
    absl::StatusOr<std::string> id = device_->NewCommunicatorId();
    // Without an id the coordinator finds that its node cannot continue.
    if (!id.ok()) LogError("ring %d: %s", answer.number, std::string(id.status().message()));
    if (id.ok()) stopped.set_nccl_id(*std::move(id));
  }
  aggregator_->SayStopped(stopped);
}

absl::Status NcclLink::InRings(absl::FunctionRef<absl::Status()> call) {
  while (true) {
    absl::Status status = call();
    if (!absl::IsAborted(status)) return status;
    if (status = GoOn(); !status.ok()) return status;
    if (is_over_) {
      return absl::InvalidArgumentError(
          "all other ranks have made all of their steps, but this one goes on");
    }
  }
}

absl::Status NcclLink::GoOn() {
  while (true) {
    if (absl::Status left = steps_->LeaveRing(); !left.ok()) return left;
    const absl::StatusOr<proto::RankRing> ring = aggregator_->AwaitRing([this] {
      const absl::Status wanted = StillWanted();
      return wanted.ok() || absl::IsAborted(wanted) ? aggregator_->AskProgram() : wanted;
    });
    if (!ring.ok()) return ring.status();
    if (!stops_->Form(ring->number())) continue;
    is_over_ = ring->is_over();
    absl::Status formed = is_over_ ? absl::OkStatus() : FormRing(*ring);
    if (!absl::IsAborted(formed)) return formed;
  }
}

absl::Status NcclLink::FormRing(const proto::RankRing& ring) {
  LogInfo("goes on in ring %d, as rank %d of %d", ring.number(), ring.rank(), ring.ranks());
  absl::StatusOr<std::unique_ptr<device::Communicator>> communicator = device_->NewCommunicator(
      ring.nccl_id(), ring.ranks(), ring.rank(), [this] { return StillWanted(); });
  if (!communicator.ok()) return OrStopped(communicator.status());
  return steps_->GoOn(*std::move(communicator), ring.ranks(), ring.rank());
}

absl::Status NcclLink::OrStopped(absl::Status error) {
  const absl::Time give_up = absl::Now() + CommunicatorWatch::kForTheCoordinator;
  while (absl::IsInternal(error) && device_->Health().ok() && absl::Now() < give_up) {
    if (absl::Status wanted = StillWanted(); !wanted.ok()) return wanted;
    absl::SleepFor(kLinkRingsLook);
  }
  return error;
}

absl::Status NcclLink::EndTogether() {
  while (true) {
    absl::Status status = ExpectSameWeights("final weights");
    // If the ring was stopped before this rank knew it to be over, the next one tells it.
    if (status.ok() && stops_ && !stops_->End()) status = stops_->Check();
    if (!absl::IsAborted(status)) return status;
    if (status = GoOn(); !status.ok() || is_over_) return status;
  }
}

absl::StatusOr<std::unique_ptr<AloneLink>> AloneLink::Create(
    const proto::Launch& launch, std::shared_ptr<client::AgentChannel> agent) {
  absl::StatusOr<std::shared_ptr<device::Device>> device =
      worker::UseDevice(launch, launch.local_rank());
  if (!device.ok()) return device.status();
  return absl::WrapUnique(new AloneLink(launch, *std::move(device), std::move(agent)));
}

absl::StatusOr<client::ArenaView> AloneLink::Allocate(const proto::Layout& layout) {
  if (absl::Status status = ValidateLayout(layout); !status.ok()) return status;
  layout_ = layout;
  weights_.assign(layout.elements(), 0.0f);
  gradients_.assign(layout.elements(), 0.0f);
  return client::ArenaView{absl::MakeSpan(weights_), absl::MakeSpan(gradients_)};
}

absl::StatusOr<client::RunFacts> AloneLink::Start(const client::JobFacts& facts) {
  const absl::StatusOr<proto::Job> job = client::CompleteJob(launch_.record().job(), facts);
  if (!job.ok()) return job.status();
  absl::StatusOr<std::unique_ptr<DeviceSteps>> steps = DeviceSteps::Create(
      device_, *job, layout_, [] { return absl::OkStatus(); }, facts.says_rates, still_wanted_);
  if (!steps.ok()) return steps.status();
  steps_ = *std::move(steps);
  absl::Status status = steps_->TakeWeightsFrom(weights_.data());
  if (status.ok()) {
    status = client::AwaitTraining(launch_, layout_, facts, agent_.get(), still_wanted_);
  }
  if (!status.ok()) return status;
  client::RunFacts run = client::FactsAlone(launch_.record(), layout_, facts);
  status = steps_->Begin(nullptr, 1, run.chunk_elements, run.samples_per_epoch);
  if (!status.ok()) return status;
  const auto image = client::ReadArena(read_, layout_, steps_->states());
  status = image.status();
  if (status.ok() && *image) status = steps_->TakeFrom(**image);
  if (!status.ok()) return status;
  ShowArenas(*steps_, &run);
  weights_ = {};
  gradients_ = {};
  return run;
}

absl::Status AloneLink::BeginStep(uint64_t, uint32_t samples, float rate) {
  return steps_->BeginStep(samples, rate);
}

absl::Status AloneLink::AwaitWeights(ChunkId chunk, uint64_t) {
  return stream_ != nullptr ? steps_->WaitIn(stream_, chunk) : steps_->AwaitWeights(chunk);
}

absl::Status AloneLink::Publish(absl::Span<const ChunkId> chunks, uint64_t step) {
  const absl::StatusOr<const device::Event*> ready = RecordIn(stream_, device_.get(), &ready_);
  if (!ready.ok()) return ready.status();
  return steps_->Publish(chunks, step, *ready);
}

absl::Status AloneLink::Finish(uint64_t) { return steps_->Finish(); }

}  // namespace strata::nccl
