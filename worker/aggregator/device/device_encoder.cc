#include "worker/aggregator/device/device_encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/diverged.h"
#include "common/require.h"
#include "common/wire/payload.h"
#include "kernels/device/device_kernels.h"
#include "numerics/encoder.h"
#include "numerics/top_k.h"

namespace strata::worker {
namespace {

// Offset of the payload after the verdict, on the device and on the host: alignment for the fastest
// kernel writes.
constexpr size_t kPayloadAt = 64;
constexpr size_t kSparseHead = sizeof(uint32_t);

const device::DeviceDenseCodec& FindDenseCodec(const device::DeviceKernels& kernels,
                                               wire::Codec codec) {
  switch (codec) {
    case wire::Codec::kFloat16:
      return kernels.float16;
    case wire::Codec::kBFloat16:
      return kernels.bfloat16;
    case wire::Codec::kInt8:
      return kernels.int8;
    default:
      return kernels.one_bit;
  }
}

size_t SparseBytes(size_t count) { return kSparseHead + count * 2 * sizeof(uint32_t); }

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceEncoder>> DeviceEncoder::Create(
    const proto::JobRecord& record, NodeId node, const ChunkMap& map, ChunkShare share,
    const std::shared_ptr<device::Device>& device, device::Stream* stream) {
  const numerics::CompressionOptions options =
      numerics::MakeCompression(record.job().push(), kernels::Feedback::kResidual);
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if (options.compression == numerics::Compression::kNone) {
    return absl::InvalidArgumentError("push.codec: FP32 is not encoded");
  }
  auto encoder = absl::WrapUnique(new DeviceEncoder(record, node, map, share, options));
  encoder->device_ = device;
  encoder->kernels_ = &device->kernels();
  if (absl::Status status = encoder->Allocate(device.get(), stream); !status.ok()) return status;
  return encoder;
}

absl::Status DeviceEncoder::Allocate(device::Device* device, device::Stream* stream) {
  const size_t state_bytes = numerics::StateVectors(options_) * stride() * sizeof(float);
  const size_t outcome_bytes =
      kPayloadAt + wire::EncodedBytesMax(codec_, map_.ElementsOf(ChunkId(0)));
  absl::StatusOr<device::Memory> state = device->Allocate(state_bytes, "what was not sent");
  if (!state.ok()) return state.status();
  state_ = *std::move(state);
  for (Turn& turn : turns_) {
    absl::StatusOr<device::Memory> outcome = device->Allocate(outcome_bytes, "encoded gradients");
    if (!outcome.ok()) return outcome.status();
    turn.memory = *std::move(outcome);
    // More is copied than the payload may fill.
    absl::Status status = stream->Fill(turn.memory.get(), 0, outcome_bytes);
    if (!status.ok()) return status;
    absl::StatusOr<std::unique_ptr<device::Event>> copied = device->NewEvent();
    if (!copied.ok()) return copied.status();
    turn.copied = *std::move(copied);
  }
  device_bytes_ = state_bytes + turns_.size() * outcome_bytes;
  return stream->Fill(state_.get(), 0, state_bytes);
}

size_t DeviceEncoder::stride() const {
  const size_t chunks = (map_.chunks() - share_.first + share_.of - 1) / share_.of;
  const size_t elements = std::min<size_t>(chunks * map_.chunk_elements(), map_.elements());
  return (elements + 3) / 4 * 4;
}

float* DeviceEncoder::StateAt(int vector, ChunkId chunk) const {
  const size_t of_share = chunk.value() / share_.of;
  return reinterpret_cast<float*>(state_.get()) + vector * stride() +
         of_share * map_.chunk_elements();
}

size_t DeviceEncoder::host_bytes(ChunkId chunk) const {
  const size_t n = map_.ElementsOf(chunk);
  const bool is_top_k = options_.compression == numerics::Compression::kTopK;
  return kPayloadAt + (is_top_k ? SparseBytes(numerics::LargestCount(options_.density, n))
                                : wire::EncodedBytesMax(codec_, n));
}

absl::StatusOr<DeviceEncoder::Outcome> DeviceEncoder::Encode(ChunkId chunk, const float* sum,
                                                             uint32_t samples,
                                                             device::Stream* stream) {
  STRATA_REQUIRE(chunk.value() % share_.of == share_.first);
  const size_t n = map_.ElementsOf(chunk);
  const Turn& turn = turns_[turn_];
  turn_ = (turn_ + 1) % turns_.size();
  auto* const verdict = reinterpret_cast<device::Verdict*>(turn.memory.get());
  std::byte* const payload = turn.memory.get() + kPayloadAt;
  absl::Status status = stream->Wait(*turn.copied);
  if (status.ok()) status = stream->Fill(verdict, device::kGoodByte, sizeof *verdict);
  if (!status.ok()) return status;
  size_t bytes = wire::EncodedBytesMax(codec_, n);
  if (codec_ == wire::Codec::kSparse) {
    const bool is_dgc = options_.compression == numerics::Compression::kDgc;
    const kernels::Accumulators accumulators = {.feedback = kernels::Feedback::kResidual,
                                                .state = StateAt(0, chunk),
                                                .momentum = is_dgc ? StateAt(1, chunk) : nullptr,
                                                .factor = options_.momentum};
    const uint64_t count = numerics::LargestCount(density_.Next(chunk, samples), n);
    bytes = SparseBytes(count);
    status = kernels_->sparse.encode_largest(*stream, sum, accumulators, n,
                                             static_cast<uint32_t>(count), payload, verdict);
  } else {
    status = FindDenseCodec(*kernels_, codec_)
                 .encode(*stream, sum, kernels::Feedback::kResidual, StateAt(0, chunk), n, payload,
                         verdict);
  }
  if (!status.ok()) return status;
  return Outcome{turn.memory.get(), kPayloadAt + bytes, turn.copied.get()};
}

absl::StatusOr<Bytes> DeviceEncoder::PayloadIn(const std::shared_ptr<std::byte>& host,
                                               ChunkId chunk) const {
  device::Verdict verdict;
  std::memcpy(&verdict, host.get(), sizeof verdict);
  if (verdict != device::kGood) {
    return DivergedError(absl::StrCat(
        "an element, alone or with what was not sent before, is NaN, infinite or too large for ",
        wire::ToString(codec_)));
  }
  const std::byte* const payload = host.get() + kPayloadAt;
  size_t bytes = wire::EncodedBytesMax(codec_, map_.ElementsOf(chunk));
  if (codec_ == wire::Codec::kSparse) {
    uint32_t count;
    std::memcpy(&count, payload, sizeof count);
    bytes = SparseBytes(count);
  }
  return Bytes(host, payload, bytes);
}

}  // namespace strata::worker
