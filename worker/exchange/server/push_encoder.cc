#include "worker/exchange/server/push_encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "common/diverged.h"
#include "common/require.h"
#include "numerics/encoder.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {
namespace {

// Returns the share of an epoch of the job represented by one sample of the node.
double EpochsPerSample(const proto::JobRecord& record, NodeId node) {
  if (record.samples_per_epoch() == 0) return 0;
  return NodeShare::Of(record, node).JobSamplesPerOwn() /
         static_cast<double>(record.samples_per_epoch());
}

}  // namespace

absl::StatusOr<std::unique_ptr<PushEncoder>> PushEncoder::Create(const proto::JobRecord& record,
                                                                 NodeId node, const ChunkMap& map,
                                                                 const kernels::Kernels& kernels,
                                                                 From from) {
  auto encoder = absl::WrapUnique(new PushEncoder(record, node, map, kernels, from));
  if (encoder->codec_ == wire::Codec::kNone || from == From::kPayloads) return encoder;
  const numerics::CompressionOptions options =
      numerics::MakeCompression(encoder->encoding_, kernels::Feedback::kResidual);
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    auto one = numerics::Encoder::Create(options, map.ElementsOf(ChunkId(c)), kernels);
    if (!one.ok()) return one.status();
    encoder->state_bytes_ += numerics::StateVectors(options) * (*one)->elements() * sizeof(float);
    encoder->encoders_.push_back(*std::move(one));
  }
  return encoder;
}

PushEncoder::PushEncoder(const proto::JobRecord& record, NodeId node, const ChunkMap& map,
                         const kernels::Kernels& kernels, From from)
    : encoding_(record.job().push()),
      codec_(numerics::WireCodec(record.job().push())),
      drops_zeros_(record.job().consistency().lazy().has_significance()),
      from_(from),
      kernels_(kernels),
      density_(record, node, map.chunks()) {}

absl::StatusOr<PushEncoder::Encoded> PushEncoder::Encode(ChunkId id, const Bytes& sum,
                                                         uint32_t samples) {
  if (from_ == From::kPayloads) return Encoded{codec_, sum};
  if (drops_zeros_) return WithoutZeros(sum);
  if (codec_ == wire::Codec::kNone || sum.empty()) return Encoded{wire::Codec::kNone, sum};
  numerics::Encoder* const encoder = encoders_[id.value()].get();
  if (codec_ == wire::Codec::kSparse) {
    const absl::Status status = encoder->SetDensity(density_.Next(id, samples));
    if (!status.ok()) return status;
  }
  absl::StatusOr<Bytes> payload = numerics::EncodePayload(
      encoder, absl::MakeConstSpan(sum.floats(), sum.float_count()), &scratch_, pool_);
  if (!payload.ok()) return payload.status();
  return Encoded{codec_, *std::move(payload)};
}

absl::StatusOr<PushEncoder::Encoded> PushEncoder::WithoutZeros(const Bytes& sum) {
  const absl::Span<const float> values(sum.floats(), sum.float_count());
  if (!kernels_.all_finite(values.data(), values.size())) {
    return DivergedError("NaN or infinity");
  }
  const auto count = static_cast<uint32_t>(
      std::count_if(values.begin(), values.end(), [](float value) { return value != 0; }));
  if (count > wire::SparseCountMax(values.size())) return Encoded{wire::Codec::kNone, sum};
  const size_t bytes = sizeof(uint32_t) + count * (sizeof(uint32_t) + sizeof(float));
  const std::shared_ptr<std::byte> payload = pool_.AllocateBytes(bytes);
  std::memcpy(payload.get(), &count, sizeof count);
  std::byte* index_at = payload.get() + sizeof count;
  std::byte* value_at = index_at + count * sizeof(uint32_t);
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    std::memcpy(index_at, &i, sizeof i);
    std::memcpy(value_at, &values[i], sizeof(float));
    index_at += sizeof i;
    value_at += sizeof(float);
  }
  return Encoded{wire::Codec::kSparse, Bytes(payload, payload.get(), bytes)};
}

PushImage PushEncoder::Image(ChunkId id) {
  PushImage image = {.samples = density_.samples(id)};
  if (encoders_.empty()) return image;
  const numerics::Encoder& encoder = *encoders_[id.value()];
  for (int vector = 0; vector < encoder.vectors(); ++vector) {
    const absl::Span<const float> state = encoder.State(vector);
    const auto copy = CopyFloats(CopyReason::kCut, pool_, state.data(), state.size());
    image.unsent.push_back(AsBytes(copy, state.size()));
  }
  return image;
}

absl::Status PushEncoder::Restore(ChunkId id, const PushImage& image) {
  STRATA_REQUIRE(from_ == From::kSums);
  const size_t vectors = encoders_.empty() ? 0 : encoders_[id.value()]->vectors();
  if (image.unsent.size() != vectors) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d vectors of what was not sent, push.codec keeps %d", image.unsent.size(), vectors));
  }
  if (vectors > 0) {
    std::vector<absl::Span<const float>> state;
    for (const Bytes& vector : image.unsent) {
      state.emplace_back(vector.floats(), vector.float_count());
    }
    if (absl::Status status = encoders_[id.value()]->Restore(state); !status.ok()) return status;
  }
  density_.GoOnFrom(id, image.samples);
  return absl::OkStatus();
}

size_t PushEncoder::memory_bytes() const { return state_bytes_ + pool_.allocated_bytes(); }

PushDensity::PushDensity(const proto::JobRecord& record, NodeId node, uint32_t chunks)
    : encoding_(record.job().push()),
      density_(numerics::MakeCompression(encoding_, kernels::Feedback::kResidual).density),
      epochs_per_sample_(EpochsPerSample(record, node)),
      samples_(chunks) {}

double PushDensity::Next(ChunkId chunk, uint32_t samples) {
  if (encoding_.codec() != proto::Encoding::DGC) return density_;
  uint64_t& before = samples_[chunk.value()];
  const double epochs = static_cast<double>(before) * epochs_per_sample_;
  before += samples;
  return numerics::DgcDensityAt(encoding_, epochs);
}

}  // namespace strata::worker
