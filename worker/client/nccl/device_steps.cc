#include "worker/client/nccl/device_steps.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/counted.h"
#include "common/diverged.h"
#include "common/require.h"
#include "numerics/update.h"

namespace strata::nccl {

namespace {

// Kernels and most sums take less; a core does not spin longer.
constexpr absl::Duration kSpin = absl::Microseconds(50);
constexpr absl::Duration kSleep = absl::Microseconds(50);

// Rounds up to where the next part of the arena begins.
uint64_t Rounded(uint64_t elements) { return (elements + 63) / 64 * 64; }

}  // namespace

DeviceSteps::DeviceSteps(std::shared_ptr<device::Device> device, const proto::Job& job,
                         const proto::Layout& layout, device::StillWanted still_wanted,
                         bool says_rates, device::StillWanted program_waits, RingStops* stops)
    : device_(std::move(device)),
      job_(job),
      layout_(layout),
      still_wanted_(std::move(still_wanted)),
      program_waits_(program_waits ? std::move(program_waits) : [] { return absl::OkStatus(); }),
      caller_waits_([this] {
        absl::Status status = still_wanted_();
        return status.ok() ? program_waits_() : status;
      }),
      stops_(stops),
      rule_(numerics::MakeLocalUpdateRule(job, 0, says_rates)) {}

absl::StatusOr<std::unique_ptr<DeviceSteps>> DeviceSteps::Create(
    std::shared_ptr<device::Device> device, const proto::Job& job, const proto::Layout& layout,
    device::StillWanted still_wanted, bool says_rates, device::StillWanted program_waits,
    RingStops* stops) {
  if (absl::Status status = ValidateLayout(layout); !status.ok()) return status;
  std::unique_ptr<DeviceSteps> steps(new DeviceSteps(std::move(device), job, layout,
                                                     std::move(still_wanted), says_rates,
                                                     std::move(program_waits), stops));
  if (absl::Status status = steps->Allocate(); !status.ok()) return status;
  return steps;
}

// Members are destroyed in an order that frees memory when nothing uses it any more.
DeviceSteps::~DeviceSteps() {
  watch_.reset();
  if (communicator_) communicator_->Abort();
  if (stream_) stream_->Synchronize().IgnoreError();
}

absl::Status DeviceSteps::Allocate() {
  const uint64_t stride = Rounded(layout_.elements());
  const int before_state = stops_ == nullptr ? 2 : 3;
  const int parts = before_state + states();
  const size_t bytes = parts * stride * sizeof(float);
  absl::StatusOr<device::Memory> arena = device_->Allocate(
      bytes, stops_ == nullptr ? "the rank's weights, gradients and optimizer state"
                               : "the rank's weights, gradients, sums and optimizer state");
  if (!arena.ok()) return arena.status();
  arena_ = *std::move(arena);
  device_bytes_ += bytes;
  weights_ = reinterpret_cast<float*>(arena_.get());
  gradients_ = weights_ + stride;
  sums_ = stops_ == nullptr ? gradients_ : gradients_ + stride;
  if (states() > 0) state0_ = sums_ + stride;
  if (states() > 1) state1_ = state0_ + stride;
  absl::StatusOr<std::unique_ptr<device::Stream>> stream = device_->NewStream(/*urgent=*/true);
  if (!stream.ok()) return stream.status();
  stream_ = *std::move(stream);
  if (absl::Status status = stream_->Fill(weights_, 0, bytes); !status.ok()) return status;
  return stream_->Synchronize();
}

absl::Status DeviceSteps::TakeWeightsFrom(const float* host) {
  absl::Status status = stream_->Copy(weights_, host, layout_.elements() * sizeof(float));
  return status.ok() ? stream_->Synchronize() : status;
}

absl::Status DeviceSteps::BringWeightsTo(float* host) {
  absl::Status status = stream_->Copy(host, weights_, layout_.elements() * sizeof(float));
  return status.ok() ? stream_->Synchronize() : status;
}

absl::Status DeviceSteps::TakeFrom(const client::ArenaImage& image) {
  for (int i = 0; i < image.vectors(); ++i) {
    const absl::Span<const float> floats = image.vector(i);
    absl::Status status = stream_->Copy(vector(i), floats.data(), floats.size() * sizeof(float));
    if (!status.ok()) return status;
  }
  samples_ = image.samples();
  return stream_->Synchronize();
}

absl::StatusOr<std::vector<ChunkImage>> DeviceSteps::Cut(uint64_t steps) {
  if (absl::Status status = AwaitAll(); !status.ok()) return status;
  const client::ArenaImage image(layout_.elements(), states());
  for (int i = 0; i < image.vectors(); ++i) {
    const absl::Span<float> floats = image.vector(i);
    absl::Status status = stream_->Copy(floats.data(), vector(i), floats.size() * sizeof(float));
    if (!status.ok()) return status;
  }
  if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
  return image.Chunks(*map_, steps, samples_);
}

absl::Status DeviceSteps::Begin(std::unique_ptr<device::Communicator> communicator, uint32_t ranks,
                                uint32_t chunk_elements, uint64_t samples_per_epoch) {
  communicator_ = std::move(communicator);
  ranks_ = ranks;
  if (communicator_ != nullptr) WatchCommunicator();
  rule_.samples_per_epoch = samples_per_epoch;
  map_.emplace(layout_.elements(), chunk_elements);
  chunks_.resize(map_->chunks());
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    absl::StatusOr<std::unique_ptr<device::Event>> landed = device_->NewEvent();
    if (!landed.ok()) return landed.status();
    chunks_[c].landed = *std::move(landed);
    chunks_[c].runs = OptimizerRuns(layout_, *map_, ChunkId(c));
  }
  const size_t verdict_bytes = chunks_.size() * sizeof(device::Verdict);
  absl::StatusOr<device::Memory> verdicts =
      device_->Allocate(verdict_bytes, "verdicts on gradients");
  if (!verdicts.ok()) return verdicts.status();
  verdicts_ = *std::move(verdicts);
  absl::StatusOr<device::Memory> known =
      device_->AllocatePinned(verdict_bytes, "verdicts on gradients");
  if (!known.ok()) return known.status();
  known_verdicts_ = *std::move(known);
  auto sums = RankSums::Create(device_.get(), stream_.get(), stops_ == nullptr ? 0 : ranks);
  if (!sums.ok()) return sums.status();
  rank_sums_ = *std::move(sums);
  device_bytes_ += verdict_bytes + rank_sums_->device_bytes();
  absl::StatusOr<std::unique_ptr<device::Event>> arrived = device_->NewEvent();
  if (!arrived.ok()) return arrived.status();
  arrived_ = *std::move(arrived);
  if (communicator_ == nullptr) return absl::OkStatus();
  auto trace = ReduceTrace::Create(job_, device_, stream_.get());
  if (!trace.ok()) return trace.status();
  trace_ = *std::move(trace);
  return absl::OkStatus();
}

absl::Status DeviceSteps::TakeWeightsOfRank0() {
  if (communicator_ == nullptr) return absl::OkStatus();
  absl::Status status =
      communicator_->Broadcast(*stream_, weights_, layout_.elements(), 0, caller_waits_);
  if (status.ok()) status = stream_->Record(arrived_.get());
  if (status = OrCause(std::move(status)); !status.ok()) return status;
  return Await(*arrived_);
}

absl::Status DeviceSteps::StartSum(uint64_t value, uint64_t step,
                                   const device::StillWanted& wanted) {
  const RankSums::Own own = {.value = value, .step = step, .rate = rate_, .made = begun_};
  return rank_sums_->Start(communicator_.get(), ranks_, own, wanted);
}

absl::StatusOr<uint64_t> DeviceSteps::AwaitSum() {
  if (absl::Status status = Await(rank_sums_->done()); !status.ok()) return status;
  return rank_sums_->Sum();
}

absl::StatusOr<uint64_t> DeviceSteps::Sum(uint64_t value) {
  if (communicator_ == nullptr) return value;
  rate_ = 0;
  if (absl::Status status = OrCause(StartSum(value, 0, caller_waits_)); !status.ok()) return status;
  return AwaitSum();
}

absl::Status DeviceSteps::BeginStep(uint32_t samples, float rate) {
  if (stops_ != nullptr) {
    if (absl::Status status = Settle(); !status.ok()) return status;
  }
  rate_ = rate;
  own_samples_ = samples;
  counting_ = true;
  queued_ = 0;
  ++begun_;
  if (communicator_ == nullptr) return absl::OkStatus();
  absl::Status status = OrCause(StartSum(samples, begun_, caller_waits_));
  // The step has begun all the same: the next ring counts its samples.
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

absl::Status DeviceSteps::Publish(absl::Span<const ChunkId> chunks, uint64_t step,
                                  const device::Event* ready) {
  return OrCause(PublishAll(chunks, step, ready));
}

absl::Status DeviceSteps::PublishAll(absl::Span<const ChunkId> chunks, uint64_t step,
                                     const device::Event* ready) {
  if (counting_ && stops_ == nullptr) {
    if (absl::Status status = AwaitAll(); !status.ok()) return status;
  }
  if (absl::Status status = AwaitCount(); !status.ok()) return status;
  if (ready != nullptr) {
    if (absl::Status status = stream_->Wait(*ready); !status.ok()) return status;
  }
  // Values that later chunks need come before them in this rank's stream already.
  for (const ChunkId chunk : chunks) chunks_[chunk.value()].published = true;
  return QueuePublished(step);
}

absl::Status DeviceSteps::AwaitCount() {
  if (!counting_) return absl::OkStatus();
  absl::StatusOr<uint64_t> all = communicator_ == nullptr ? own_samples_ : AwaitSum();
  if (!all.ok()) return all.status();
  step_samples_ = *all;
  samples_ += step_samples_;
  counting_ = false;
  return absl::OkStatus();
}

absl::Status DeviceSteps::QueuePublished(uint64_t step) {
  while (queued_ < chunks_.size() && chunks_[queued_].published) {
    chunks_[queued_].published = false;
    if (absl::Status status = PublishOne(ChunkId(queued_++), step); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// A rank's own gradients are checked before they are added, so that the rank at fault is known.
absl::Status DeviceSteps::PublishOne(ChunkId id, uint64_t step) {
  Chunk& chunk = chunks_[id.value()];
  const uint64_t at = map_->OffsetOf(id);
  const size_t count = map_->ElementsOf(id);
  const size_t word = id.value() * sizeof(device::Verdict);
  auto* const verdict = reinterpret_cast<device::Verdict*>(verdicts_.get() + word);
  absl::Status status = stream_->Fill(verdict, device::kGoodByte, sizeof *verdict);
  if (status.ok()) {
    status = device_->kernels().check_finite(*stream_, gradients_ + at, count, verdict);
  }
  if (status.ok()) status = stream_->Copy(known_verdicts_.get() + word, verdict, sizeof *verdict);
  if (status.ok() && communicator_ != nullptr) {
    status = ReduceTrace::Queue(trace_.get(), id, step, [&] {
      return communicator_->AllReduce(*stream_, gradients_ + at, sums_ + at, count, caller_waits_);
    });
    bytes_reduced_ += count * sizeof(float);
    ++chunks_reduced_;
  }
  chunk.step = step;
  if (stops_ != nullptr) {
    const bool is_last = id.value() + 1 == chunks_.size();
    return status.ok() && is_last ? stream_->Record(arrived_.get()) : status;
  }
  if (status.ok()) status = Update(chunk, at, step + 1);
  if (status.ok()) status = stream_->Record(chunk.landed.get());
  return status;
}

absl::Status DeviceSteps::Update(const Chunk& chunk, uint64_t at, uint64_t number) {
  // Without samples the sum is 0, and so is a mean; other optimizers change nothing.
  if (step_samples_ == 0 && rule_.optimizer.kind != OptimizerKind::kMean) return absl::OkStatus();
  numerics::Update update = numerics::UpdateAt(rule_, samples_, number, {.said = rate_});
  update.gradient_scale =
      static_cast<float>(1.0 / static_cast<double>(std::max<uint64_t>(1, step_samples_)));
  for (const OptimizerRun& run : chunk.runs) {
    const uint64_t begin = at + run.offset;
    float* const w = weights_ + begin;
    const absl::Status status =
        device_->kernels().optimize(*stream_, numerics::RunParams(rule_.optimizer, run),
                                    numerics::MakeStep(rule_.optimizer, update, run), sums_ + begin,
                                    w, w, state0_ == nullptr ? nullptr : state0_ + begin,
                                    state1_ == nullptr ? nullptr : state1_ + begin, run.count);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceSteps::OrCause(absl::Status status) {
  if (!watch_) return status;
  if (absl::Status cause = watch_->status(); !cause.ok()) return cause;
  if (stops_ != nullptr) {
    if (absl::Status stopped = stops_->Check(); !stopped.ok()) return stopped;
    // A lost peer does not make a device fail.
    if (absl::IsInternal(status) && !device_->Health().ok()) return status;
  }
  return absl::IsInternal(status) ? watch_->FindCause(std::move(status)) : status;
}

absl::Status DeviceSteps::Await(const device::Event& event, bool asks_program) {
  const absl::Time begin = absl::Now();
  while (true) {
    const absl::StatusOr<bool> done = event.Done();
    // Even a completed one: the abort may have released it.
    if (absl::Status status = OrCause(done.status()); !status.ok()) return status;
    if (*done) return absl::OkStatus();
    if (absl::Now() <= begin + kSpin) continue;
    if (absl::Status status = asks_program ? program_waits_() : absl::OkStatus(); !status.ok()) {
      return status;
    }
    absl::SleepFor(kSleep);
  }
}

absl::Status DeviceSteps::AwaitWeights(ChunkId id) {
  Chunk& chunk = chunks_[id.value()];
  if (!chunk.step) return absl::OkStatus();
  if (absl::Status status = SettleFor(chunk); !status.ok()) return status;
  if (absl::Status status = Await(*chunk.landed); !status.ok()) return status;
  if (absl::Status status = CheckVerdict(id, *chunk.step); !status.ok()) return status;
  chunk.step.reset();
  return absl::OkStatus();
}

absl::Status DeviceSteps::CheckVerdict(ChunkId id, uint64_t step) const {
  device::Verdict verdict = device::kGood;
  std::memcpy(&verdict, known_verdicts_.get() + id.value() * sizeof verdict, sizeof verdict);
  if (verdict == device::kGood) return absl::OkStatus();
  return DivergedError(
      absl::StrFormat("the gradient of chunk %d is not finite at step %d", id.value(), step));
}

absl::Status DeviceSteps::WaitIn(device::Stream* stream, ChunkId id) {
  const Chunk& chunk = chunks_[id.value()];
  if (absl::Status status = SettleFor(chunk); !status.ok()) return status;
  return OrCause(chunk.step ? stream->Wait(*chunk.landed) : absl::OkStatus());
}

absl::Status DeviceSteps::AwaitAll() {
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    if (absl::Status status = AwaitWeights(ChunkId(c)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceSteps::Finish() {
  if (absl::Status status = AwaitAll(); !status.ok()) return status;
  if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
  if (trace_ != nullptr) trace_->Stop();
  if (communicator_ == nullptr) return absl::OkStatus();
  if (stops_ != nullptr) return EndRing();
  watch_->Stop();  // the watched work ends normally now, unless the watch has aborted it
  return OrCause(communicator_->Finish(caller_waits_));
}

void DeviceSteps::SendTrace(client::AgentChannel* agent, bool all) {
  if (trace_ != nullptr) trace_->Send(agent, all);
}

// Continuing without ranks that die.

void DeviceSteps::WatchCommunicator() {
  watch_.emplace(
      communicator_.get(), still_wanted_,
      stops_ == nullptr ? CommunicatorWatch::kForTheJob : CommunicatorWatch::kForTheCoordinator);
}

absl::Status DeviceSteps::SettleFor(const Chunk& chunk) {
  const bool is_due = stops_ != nullptr && chunk.step && *chunk.step >= made_;
  return is_due ? Settle() : absl::OkStatus();
}

absl::Status DeviceSteps::Settle() {
  if (absl::Status status = OrCause(absl::OkStatus()); !status.ok()) return status;
  if (made_ == begun_) return absl::OkStatus();
  if (absl::Status status = AwaitCount(); !status.ok()) return status;
  if (absl::Status status = OrCause(QueuePublished(made_)); !status.ok()) return status;
  STRATA_REQUIRE(queued_ == chunks_.size());
  absl::Status reduced = Await(*arrived_);
  return reduced.ok() ? ApplySums() : reduced;
}

// After an abort the stream continues with garbage. Aborts happen once the ring is known to be
// stopped, so if it is not yet when the step counts as made, the sums were complete.
absl::Status DeviceSteps::ApplySums() {
  if (absl::Status status = OrCause(communicator_->Error()); !status.ok()) return status;
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    if (absl::Status status = CheckVerdict(ChunkId(c), made_); !status.ok()) return status;
  }
  if (!stops_->Make(made_ + 1)) return stops_->Check();
  ++made_;
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    absl::Status status = Update(chunks_[c], map_->OffsetOf(ChunkId(c)), made_);
    if (status.ok()) status = stream_->Record(chunks_[c].landed.get());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceSteps::LeaveRing() {
  communicator_->Abort();
  return stream_->Synchronize();
}

absl::Status DeviceSteps::GoOn(std::unique_ptr<device::Communicator> communicator, uint32_t ranks,
                               uint32_t rank) {
  watch_.reset();
  communicator_ = std::move(communicator);
  ranks_ = ranks;
  WatchCommunicator();
  absl::Status status =
      OrCause(rank_sums_->StartEach(communicator_.get(), ranks, rank, made_, still_wanted_));
  if (status.ok()) status = Await(rank_sums_->done(), /*asks_program=*/false);
  if (!status.ok()) return status;
  const std::vector<uint64_t> made = rank_sums_->Each();
  const auto [least, most] = std::minmax_element(made.begin(), made.end());
  const bool is_behind = made_ < *most;
  // The steps that the others have made contain this rank's gradients.
  if (*most - *least > 1 || (is_behind && queued_ < chunks_.size())) {
    return absl::InternalError(
        absl::StrFormat("rank %d of the new ring has made %d steps and rank %d %d, which no "
                        "all-reduce leaves",
                        most - made.begin(), *most, least - made.begin(), *least));
  }
  if (*least < *most) status = TakeSumsOf(static_cast<uint32_t>(most - made.begin()));
  if (!status.ok()) return status;
  return is_behind ? ApplySums() : BeginAgain();
}

// Ranks that have also made the step receive the bits that they have: wherever the broadcast is
// aborted, they still have the step's sums.
absl::Status DeviceSteps::TakeSumsOf(uint32_t rank) {
  absl::Status status =
      communicator_->Broadcast(*stream_, sums_, layout_.elements(), rank, still_wanted_);
  if (status.ok()) status = stream_->Record(arrived_.get());
  if (status = OrCause(std::move(status)); !status.ok()) return status;
  return Await(*arrived_, /*asks_program=*/false);
}

// With the published chunks of the step that no rank has made.
absl::Status DeviceSteps::BeginAgain() {
  if (made_ == begun_) return absl::OkStatus();
  if (!counting_) samples_ -= step_samples_;
  counting_ = true;
  for (uint32_t c = 0; c < queued_; ++c) chunks_[c].published = true;
  queued_ = 0;
  return OrCause(StartSum(own_samples_, begun_, still_wanted_));
}

// All ranks have made all steps, so none is needed any more: a death now does no harm.
absl::Status DeviceSteps::EndRing() {
  absl::Status status = communicator_->Finish(caller_waits_);
  watch_->Stop();
  const bool is_left = stops_->is_stopped() || absl::IsAborted(watch_->status());
  if (is_left || absl::IsInternal(status)) return absl::OkStatus();
  // Unless this call has finished it, the watch has ended it, and knows why.
  return absl::IsFailedPrecondition(status) ? OrCause(std::move(status)) : status;
}

absl::StatusOr<std::unique_ptr<RankSums>> RankSums::Create(device::Device* device,
                                                           device::Stream* stream, uint32_t slots) {
  auto sums = absl::WrapUnique(new RankSums(stream));
  absl::Status status =
      sums->Allocate(device, sizeof(Agreed), "a count of samples", &sums->agreed_);
  if (status.ok() && slots > 0) {
    status =
        sums->Allocate(device, slots * sizeof(uint64_t), "a number of each rank's", &sums->each_);
  }
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<device::Event>> done = device->NewEvent();
  if (!done.ok()) return done.status();
  sums->done_ = *std::move(done);
  return sums;
}

absl::Status RankSums::Allocate(device::Device* device, size_t bytes, const char* what,
                                Words* words) {
  absl::StatusOr<device::Memory> on_device = device->Allocate(bytes, what);
  if (!on_device.ok()) return on_device.status();
  absl::StatusOr<device::Memory> on_host = device->AllocatePinned(bytes, what);
  if (!on_host.ok()) return on_host.status();
  device_bytes_ += bytes;
  *words = {*std::move(on_device), *std::move(on_host)};
  return absl::OkStatus();
}

absl::Status RankSums::Queue(const Words& words, const void* own, size_t count,
                             device::Communicator* communicator,
                             const device::StillWanted& wanted) {
  const size_t bytes = count * sizeof(uint64_t);
  auto* const on_device = reinterpret_cast<uint64_t*>(words.on_device.get());
  std::memcpy(words.on_host.get(), own, bytes);
  absl::Status status = stream_->Copy(on_device, words.on_host.get(), bytes);
  if (status.ok()) status = communicator->AllReduce(*stream_, on_device, count, wanted);
  if (status.ok()) status = stream_->Copy(words.on_host.get(), on_device, bytes);
  return status.ok() ? stream_->Record(done_.get()) : status;
}

absl::Status RankSums::Start(device::Communicator* communicator, uint32_t ranks, const Own& own,
                             const device::StillWanted& wanted) {
  ranks_ = ranks;
  own_ = own;
  const Agreed agreed = {own.value, own.step, std::bit_cast<uint32_t>(own.rate)};
  return Queue(agreed_, &agreed, sizeof agreed / sizeof(uint64_t), communicator, wanted);
}

// If one rank has another number, at least one finds that the sum is not its own value times their
// number.
absl::StatusOr<uint64_t> RankSums::Sum() const {
  Agreed sums = {};
  std::memcpy(&sums, agreed_.on_host.get(), sizeof sums);
  if (sums.step != ranks_ * own_.step) {
    return absl::InvalidArgumentError(
        own_.step == 0
            ? absl::StrFormat("ends after %s, but another rank goes on", Counted(own_.made, "step"))
            : absl::StrFormat("goes on with step %d, but another rank has made its last",
                              own_.step - 1));
  }
  if (sums.rate == ranks_ * uint64_t{std::bit_cast<uint32_t>(own_.rate)}) return sums.value;
  return absl::InvalidArgumentError(absl::StrFormat(
      "says learning rate %.9g at step %d, another rank another one", own_.rate, own_.step - 1));
}

absl::Status RankSums::StartEach(device::Communicator* communicator, uint32_t ranks, uint32_t rank,
                                 uint64_t value, const device::StillWanted& wanted) {
  ranks_ = ranks;
  std::vector<uint64_t> values(ranks, 0);
  values[rank] = value;
  return Queue(each_, values.data(), values.size(), communicator, wanted);
}

std::vector<uint64_t> RankSums::Each() const {
  std::vector<uint64_t> values(ranks_);
  std::memcpy(values.data(), each_.on_host.get(), values.size() * sizeof(uint64_t));
  return values;
}

}  // namespace strata::nccl
