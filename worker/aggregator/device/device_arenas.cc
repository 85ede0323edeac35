#include "worker/aggregator/device/device_arenas.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/copies.h"
#include "common/diverged.h"
#include "common/require.h"
#include "common/wire/payload.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"
#include "numerics/checked_payload.h"
#include "worker/aggregator/core/arenas.h"
#include "worker/aggregator/device/copy_in_parts.h"
#include "worker/aggregator/device/pinned_blocks.h"

namespace strata::worker {
namespace {

using device::Memory;

// Queues adding the payload at `at` on the device to the weights there. `verdict`: on the device;
// its result is ignored. Errors: those of device::Stream.
absl::Status DecodePayload(const device::DeviceKernels& kernels, device::Stream& stream,
                           const numerics::CheckedPayload& payload, const std::byte* at,
                           float* weights, device::Verdict* verdict) {
  const size_t n = payload.elements();
  switch (payload.codec()) {
    case wire::Codec::kFloat16:
      return kernels.float16.decode(stream, at, weights, weights, n);
    case wire::Codec::kBFloat16:
      return kernels.bfloat16.decode(stream, at, weights, weights, n);
    case wire::Codec::kInt8:
      return kernels.int8.decode(stream, at, weights, weights, n);
    case wire::Codec::kOneBit:
      return kernels.one_bit.decode(stream, at, weights, weights, n);
    case wire::Codec::kSparse: {
      const size_t count = (payload.payload().size() - sizeof(uint32_t)) / (2 * sizeof(uint32_t));
      const std::byte* const indices = at + sizeof(uint32_t);
      return kernels.sparse.add(stream, indices, indices + count * sizeof(uint32_t), count,
                                weights);
    }
    case wire::Codec::kNone: {
      const float* const inputs[] = {weights, reinterpret_cast<const float*>(at)};
      return kernels.sum(stream, absl::MakeConstSpan(inputs), weights, n, verdict);
    }
  }
  return absl::InternalError("a payload of no codec");
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceArenas>> DeviceArenas::Create(NodeMemory* memory,
                                                                   AggregatorCore* core,
                                                                   const ChunkMap& map,
                                                                   DeviceArenasOptions options) {
  auto pinned = std::make_shared<PinnedBlocks>(options.devices[0], options.source);
  auto arenas = absl::WrapUnique(new DeviceArenas(memory, core, map, options, std::move(pinned)));
  if (absl::Status status = arenas->Init(options); !status.ok()) return status;
  return arenas;
}

// Queued work reads and writes memory that is freed here.
DeviceArenas::~DeviceArenas() {
  for (UsedDevice& used : devices_) {
    for (auto* stream : {&used.up, &used.add, &used.down, &used.up_told, &used.down_told}) {
      (*stream)->Synchronize().IgnoreError();
    }
  }
}

absl::Status DeviceArenas::AddDevice(const std::shared_ptr<device::Device>& device,
                                     size_t first_rank) {
  const size_t chunk_bytes = map_.chunk_elements() * sizeof(float);
  const size_t bytes = device::SharedAllocationBytes(map_.elements() * sizeof(float));
  UsedDevice used = {.device = device, .first_rank = first_rank};
  for (const auto& [memory, size, what] :
       {std::tuple(&used.weights, bytes, "a job's weights"),
        std::tuple(&used.payload, chunk_bytes, "encoded weights"),
        std::tuple(&used.verdict, sizeof(device::Verdict), "a verdict")}) {
    absl::StatusOr<Memory> allocated = device->Allocate(size, what);
    if (!allocated.ok()) return allocated.status();
    *memory = *std::move(allocated);
    device_bytes_ += size;
  }
  absl::StatusOr<std::unique_ptr<device::Event>> added = device->NewEvent();
  if (!added.ok()) return added.status();
  used.added = *std::move(added);
  for (auto* stream : {&used.add, &used.down, &used.up, &used.down_told, &used.up_told}) {
    absl::StatusOr<std::unique_ptr<device::Stream>> made = device->NewStream(/*urgent=*/true);
    if (!made.ok()) return made.status();
    *stream = *std::move(made);
  }
  devices_.push_back(std::move(used));
  return absl::OkStatus();
}

absl::Status DeviceArenas::Init(const DeviceArenasOptions& options) {
  const size_t bytes = device::SharedAllocationBytes(map_.elements() * sizeof(float));
  for (const std::shared_ptr<device::Device>& device : options.devices) {
    const auto found = std::find_if(devices_.begin(), devices_.end(),
                                    [&](const UsedDevice& used) { return used.device == device; });
    device_of_.push_back(found - devices_.begin());
    absl::Status added;
    if (found == devices_.end()) added = AddDevice(device, device_of_.size() - 1);
    if (!added.ok()) return added;
    absl::StatusOr<Memory> gradients = device->Allocate(bytes, "a rank's gradients");
    if (!gradients.ok()) return gradients.status();
    gradients_.push_back(*std::move(gradients));
    device_bytes_ += bytes;
  }
  complete_.resize(gradients_.size());
  ranks_add_up_ = options.ranks_add_up;
  for (uint32_t used = 0; used < devices_.size(); ++used) {
    if (absl::Status status = PrepareSums(used, options); !status.ok()) return status;
  }
  if (absl::Status status = StartTrace(options.trace); !status.ok()) return status;
  return FillWeights();
}

absl::Status DeviceArenas::PrepareSums(uint32_t index, const DeviceArenasOptions& options) {
  UsedDevice& used = devices_[index];
  for (size_t r = 0; r < gradients_.size() && !ranks_add_up_; ++r) {
    used.reaches.push_back(used.device->Reaches(*devices_[device_of_[r]].device));
  }
  const size_t copied = std::count(used.reaches.begin(), used.reaches.end(), false);
  if (index >= map_.chunks()) return absl::OkStatus();
  if (copied > 0) {
    const size_t bytes = copied * map_.chunk_elements() * sizeof(float);
    absl::StatusOr<Memory> copies = used.device->Allocate(bytes, "other GPUs' gradients");
    if (!copies.ok()) return copies.status();
    used.copies = *std::move(copies);
    device_bytes_ += bytes;
  }
  if (options.encodes_for == nullptr) return absl::OkStatus();
  const ChunkShare share = {index, static_cast<uint32_t>(devices_.size())};
  auto encoder = DeviceEncoder::Create(*options.encodes_for, options.node, map_, share, used.device,
                                       used.add.get());
  if (!encoder.ok()) return encoder.status();
  used.encoder = *std::move(encoder);
  device_bytes_ += used.encoder->device_bytes();
  return absl::OkStatus();
}

absl::Status DeviceArenas::StartTrace(TraceLog* log) {
  if (log == nullptr) return absl::OkStatus();
  trace_ = std::make_unique<DeviceTrace>(log);
  for (UsedDevice& used : devices_) {
    for (const auto& [stream, lane] :
         {std::pair(used.add.get(), &used.add_lane), std::pair(used.down.get(), &used.down_lane),
          std::pair(used.up.get(), &used.up_lane)}) {
      const absl::StatusOr<size_t> added = trace_->AddLane(used.device, stream);
      if (!added.ok()) return added.status();
      *lane = *added;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceTrace::Spans> DeviceArenas::Trace(size_t lane, ChunkId chunk) {
  if (trace_ == nullptr) return DeviceTrace::Spans();
  return trace_->Begin(lane, chunk, core_->clock(chunk));
}

absl::Status DeviceArenas::FillWeights() {
  const size_t bytes = map_.elements() * sizeof(float);
  for (UsedDevice& used : devices_) {
    absl::Status status = used.up->Copy(used.weights.get(), memory_->weights(), bytes);
    if (!status.ok()) return status;
  }
  for (UsedDevice& used : devices_) {
    if (absl::Status status = used.up->Synchronize(); !status.ok()) return status;
  }
  CountCopy(CopyReason::kFirstWeights, bytes * devices_.size());
  return absl::OkStatus();
}

absl::Status DeviceArenas::Describe(uint32_t local_rank, proto::Started* started) {
  const size_t bytes = map_.elements() * sizeof(float);
  const UsedDevice& used = devices_[device_of_[local_rank]];
  const auto weights = used.device->Share(used.weights, bytes);
  if (!weights.ok()) return weights.status();
  const auto gradients = used.device->Share(gradients_[local_rank], bytes);
  if (!gradients.ok()) return gradients.status();
  started->set_weights(device::Serialize(*weights));
  started->set_gradients(device::Serialize(*gradients));
  return absl::OkStatus();
}

std::byte* DeviceArenas::At(const Memory& arena, ChunkId chunk, uint32_t first_element) const {
  return arena.get() + (map_.OffsetOf(chunk) + first_element) * sizeof(float);
}

absl::Status DeviceArenas::Mark(UsedDevice* used, device::Stream& stream, device::Stream& told,
                                Queued* queued) {
  if (used->free_events.empty()) {
    absl::StatusOr<std::unique_ptr<device::Event>> created = used->device->NewEvent();
    if (!created.ok()) return created.status();
    used->free_events.push_back(*std::move(created));
  }
  std::unique_ptr<device::Event> event = std::move(used->free_events.back());
  used->free_events.pop_back();
  absl::Status status = stream.Record(event.get());
  if (status.ok()) status = told.Wait(*event);
  queued->marks.push_back({used, std::move(event)});
  return status.ok() ? told.Call(wake_) : status;
}

absl::Status DeviceArenas::QueueAddition(UsedDevice& used, ChunkId chunk, float* sum) {
  const size_t count = map_.ElementsOf(chunk);
  absl::InlinedVector<const float*, 16> inputs;
  std::byte* copy = used.copies.get();
  for (size_t r = 0; r < gradients_.size(); ++r) {
    const std::byte* at = At(gradients_[r], chunk);
    if (!used.reaches[r]) {
      absl::Status status = used.add->Copy(copy, at, count * sizeof(float));
      if (!status.ok()) return status;
      at = std::exchange(copy, copy + map_.chunk_elements() * sizeof(float));
    }
    inputs.push_back(reinterpret_cast<const float*>(at));
  }
  return used.device->kernels().sum(*used.add, inputs, sum, count,
                                    reinterpret_cast<device::Verdict*>(used.verdict.get()));
}

absl::Status DeviceArenas::QueueSum(ChunkId chunk, uint64_t clock) {
  UsedDevice& used = AdderOf(chunk);
  auto* const sum = reinterpret_cast<float*>(At(gradients_[used.first_rank], chunk));
  absl::StatusOr<DeviceTrace::Spans> spans = Trace(used.add_lane, chunk);
  if (!spans.ok()) return spans.status();
  if (gradients_.size() > 1 && !ranks_add_up_) {
    absl::Status status = QueueAddition(used, chunk, sum);
    if (status.ok()) status = spans->Did(proto::TraceEvent::SUM);
    if (!status.ok()) return status;
  }
  DeviceEncoder::Outcome outcome = {reinterpret_cast<const std::byte*>(sum),
                                    map_.ElementsOf(chunk) * sizeof(float), nullptr};
  if (used.encoder != nullptr) {
    const uint32_t samples = sums_[chunk.value()].step.samples;
    const auto encoded = used.encoder->Encode(chunk, sum, samples, used.add.get());
    if (!encoded.ok()) return encoded.status();
    if (absl::Status status = spans->Did(proto::TraceEvent::ENCODE); !status.ok()) return status;
    outcome = *encoded;
  }
  Queued queued = {.what = Queued::What::kSum, .chunk = chunk, .clock = clock};
  if (!spans->empty()) queued.spans.push_back(*std::move(spans));
  absl::Status status = QueueCopy(used, outcome, &queued);
  if (status.ok()) status = Mark(&used, *used.down, *used.down_told, &queued);
  queued_.push_back(std::move(queued));
  return status;
}

absl::Status DeviceArenas::QueueCopy(UsedDevice& used, const DeviceEncoder::Outcome& outcome,
                                     Queued* queued) {
  const ChunkId chunk = queued->chunk;
  Summed& summed = sums_[chunk.value()];
  std::shared_ptr<void> to;
  if (used.encoder != nullptr) {
    to = summed.encoded = pool_.AllocateBytes(used.encoder->host_bytes(chunk));
  } else {
    const std::shared_ptr<float> buffer = pool_.AllocateFloats(map_.ElementsOf(chunk));
    summed.bytes = AsBytes(buffer, map_.ElementsOf(chunk));
    to = buffer;
  }
  queued->kept = {to};
  absl::Status status = used.add->Record(used.added.get());
  if (status.ok()) status = used.down->Wait(*used.added);
  if (!status.ok()) return status;
  absl::StatusOr<DeviceTrace::Spans> spans = Trace(used.down_lane, chunk);
  if (!spans.ok()) return spans.status();
  status = used.down->Copy(to.get(), outcome.at, outcome.bytes);
  if (status.ok() && outcome.copied != nullptr) status = used.down->Record(outcome.copied);
  if (status.ok()) status = spans->Did(proto::TraceEvent::TO_HOST);
  if (!spans->empty()) queued->spans.push_back(*std::move(spans));
  return status;
}

absl::Status DeviceArenas::TakeOver(ChunkId chunk, uint64_t clock) {
  Summed& summed = sums_[chunk.value()];
  if (summed.encoded == nullptr) return absl::OkStatus();
  absl::StatusOr<Bytes> payload =
      AdderOf(chunk).encoder->PayloadIn(std::exchange(summed.encoded, nullptr), chunk);
  if (!payload.ok()) {
    return Prefixed(
        absl::StrFormat("chunk %d at clock %d: sum of the gradients: ", chunk.value(), clock),
        payload.status());
  }
  summed.bytes = *std::move(payload);
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceArenas::BeginSum(ChunkId chunk, uint64_t clock) {
  sums_[chunk.value()].step = FactsOfStep(*memory_, clock);
  if (absl::Status status = QueueSum(chunk, clock); !status.ok()) return status;
  return false;
}

absl::StatusOr<bool> DeviceArenas::IsDone(const Queued& queued) const {
  for (const Queued::Mark& mark : queued.marks) {
    const absl::StatusOr<bool> done = mark.event->Done();
    if (!done.ok() || !*done) return done;
  }
  return true;
}

absl::Status DeviceArenas::Poll(std::vector<ChunkId>* summed) {
  // Each device's sums, and landings, complete in the order of its streams, but not across devices.
  absl::InlinedVector<bool, 16> waits(devices_.size() + 2);
  for (auto queued = queued_.begin(); queued != queued_.end();) {
    const size_t order = queued->what == Queued::What::kSum      ? TurnOf(queued->chunk)
                         : queued->what == Queued::What::kLanded ? devices_.size()
                                                                 : devices_.size() + 1;
    bool& waits_for_such = waits[order];
    const absl::StatusOr<bool> done = waits_for_such ? false : IsDone(*queued);
    if (!done.ok()) return done.status();
    if (!*done) {
      waits_for_such = true;
      ++queued;
      continue;
    }
    if (absl::Status status = Finish(&*queued, summed); !status.ok()) return status;
    queued = queued_.erase(queued);
  }
  return absl::OkStatus();
}

absl::Status DeviceArenas::Finish(Queued* queued, std::vector<ChunkId>* summed) {
  if (!queued->spans.empty()) {
    const bool is_chain = queued->what == Queued::What::kSum;
    absl::Status status = trace_->Note(std::move(queued->spans), is_chain);
    if (!status.ok()) return status;
  }
  if (queued->what == Queued::What::kLanded) {
    memory_->Land(queued->chunk.value(), core_->OnLanded(queued->chunk, queued->clock));
  } else if (queued->what == Queued::What::kSum) {
    if (absl::Status status = TakeOver(queued->chunk, queued->clock); !status.ok()) return status;
    for (uint32_t r = 0; r < complete_.size(); ++r) {
      complete_[r] = memory_->rank(r).complete.load(std::memory_order_relaxed);
    }
    memory_->consumed(queued->chunk.value())
        .store(core_->OnSummed(queued->chunk, complete_), std::memory_order_release);
    summed->push_back(queued->chunk);
  }
  for (Queued::Mark& mark : queued->marks) {
    mark.used->free_events.push_back(std::move(mark.event));
  }
  return absl::OkStatus();
}

Bytes DeviceArenas::FirstWeights(ChunkId chunk) {
  const size_t count = map_.ElementsOf(chunk);
  const std::shared_ptr<float> buffer = pool_.AllocateFloats(count);
  CopyBytes(CopyReason::kFirstWeights, buffer.get(), memory_->weights() + map_.OffsetOf(chunk),
            count * sizeof(float));
  return AsBytes(buffer, count);
}

ExchangeNode::Sum DeviceArenas::TakeSum(ChunkId chunk, uint64_t clock) {
  STRATA_REQUIRE(!sums_[chunk.value()].bytes.empty());
  return {std::exchange(sums_[chunk.value()].bytes, Bytes()), sums_[chunk.value()].step};
}

absl::Status DeviceArenas::TakeWeights(ChunkId chunk, uint32_t first_element,
                                       const Bytes& weights) {
  return QueueUpload(chunk, first_element, StageWeights(weights), /*traced=*/true);
}

DeviceArenas::Upload DeviceArenas::StageWeights(const Bytes& weights) {
  const size_t bytes = weights.size();
  const std::shared_ptr<std::byte> buffer = pool_.AllocateBytes(bytes);
  CopyInParts(CopyReason::kIntoArena, buffer.get(), weights.data(), bytes, helpers_);
  return {.buffer = buffer, .bytes = bytes};
}

// Each device decodes for itself, because encoded data is shorter.
absl::Status DeviceArenas::AddToWeights(ChunkId chunk, uint32_t first_element,
                                        const numerics::CheckedPayload& delta) {
  const absl::Span<const std::byte> payload = delta.payload();
  const std::shared_ptr<std::byte> buffer = pool_.AllocateBytes(payload.size());
  std::copy(payload.begin(), payload.end(), buffer.get());
  return QueueUpload(chunk, first_element, {buffer, payload.size(), &delta}, /*traced=*/true);
}

absl::Status DeviceArenas::QueueUpload(ChunkId chunk, uint32_t first_element, const Upload& upload,
                                       bool traced) {
  uploading_.push_back(upload.buffer);
  for (UsedDevice& used : devices_) {
    auto spans = traced ? Trace(used.up_lane, chunk) : DeviceTrace::Spans();
    if (!spans.ok()) return spans.status();
    std::byte* const weights = At(used.weights, chunk, first_element);
    std::byte* const to = upload.delta == nullptr ? weights : used.payload.get();
    absl::Status status = used.up->Copy(to, upload.buffer.get(), upload.bytes);
    if (status.ok()) status = spans->Did(proto::TraceEvent::TO_DEVICE);
    if (status.ok() && upload.delta != nullptr) {
      status = DecodePayload(used.device->kernels(), *used.up, *upload.delta, to,
                             reinterpret_cast<float*>(weights),
                             reinterpret_cast<device::Verdict*>(used.verdict.get()));
      if (status.ok()) status = spans->Did(proto::TraceEvent::DECODE);
    }
    if (!status.ok()) return status;
    if (!spans->empty()) upload_spans_.push_back(*std::move(spans));
  }
  return absl::OkStatus();
}

absl::Status DeviceArenas::QueueWeights(Queued queued) {
  queued.kept = std::exchange(uploading_, {});
  queued.spans = std::exchange(upload_spans_, {});
  absl::Status status;
  for (UsedDevice& used : devices_) {
    if (status.ok()) status = Mark(&used, *used.up, *used.up_told, &queued);
  }
  // Even after an error: memory that a device may still read must stay.
  queued_.push_back(std::move(queued));
  return status;
}

absl::Status DeviceArenas::Landed(ChunkId chunk, uint64_t clock) {
  return QueueWeights({.what = Queued::What::kLanded, .chunk = chunk, .clock = clock});
}

absl::Status DeviceArenas::TakeFinalWeights(ChunkId chunk, const Bytes& weights) {
  absl::Status status = QueueUpload(chunk, 0, StageWeights(weights), /*traced=*/false);
  return status.ok() ? QueueWeights({.what = Queued::What::kFinal, .chunk = chunk}) : status;
}

void DeviceArenas::LandFirstWeights() {
  for (uint32_t c = 0; c < map_.chunks(); ++c) memory_->Land(c, core_->clock(ChunkId(c)) + 1);
}

}  // namespace strata::worker
