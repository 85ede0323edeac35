#include "worker/exchange/push_encoder.h"

#include "absl/memory/memory.h"
#include "kernels/codec/encode_payload.h"
#include "kernels/codec/job_compression.h"
#include "worker/exchange/node_share.h"

namespace strata::worker {
namespace {

// Of the job's epochs, what one sample of the node stands for.
double EpochsPerSample(const proto::JobRecord& record, NodeId node) {
  if (record.samples_per_epoch() == 0) return 0;
  return JobSamplesPerOwn(record, node) / static_cast<double>(record.samples_per_epoch());
}

}  // namespace

absl::StatusOr<std::unique_ptr<PushEncoder>> PushEncoder::Create(const proto::JobRecord& record,
                                                                 NodeId node, const ChunkMap& map,
                                                                 const kernels::Kernels& kernels) {
  auto encoder = absl::WrapUnique(new PushEncoder(record, node));
  if (encoder->codec_ == wire::Codec::kNone) return encoder;
  const kernels::CompressionOptions options =
      kernels::CompressionOf(encoder->encoding_, kernels::Feedback::kResidual);
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    auto one = kernels::Encoder::Create(options, map.ElementsOf(ChunkId(c)), kernels);
    if (!one.ok()) return one.status();
    encoder->state_bytes_ += kernels::StateVectors(options) * (*one)->elements() * sizeof(float);
    encoder->chunks_.push_back({.encoder = *std::move(one)});
  }
  return encoder;
}

PushEncoder::PushEncoder(const proto::JobRecord& record, NodeId node)
    : encoding_(record.job().push()),
      codec_(kernels::CodecOf(record.job().push())),
      epochs_per_sample_(EpochsPerSample(record, node)) {}

absl::Status PushEncoder::WarmUp(Chunk* chunk) const {
  if (encoding_.codec() != proto::Encoding::DGC) return absl::OkStatus();
  const double epochs = static_cast<double>(chunk->samples) * epochs_per_sample_;
  return chunk->encoder->SetDensity(kernels::DgcDensityAt(encoding_, epochs));
}

absl::StatusOr<Bytes> PushEncoder::Encode(ChunkId id, const Bytes& sum, uint32_t samples) {
  if (codec_ == wire::Codec::kNone || sum.empty()) return sum;
  Chunk& chunk = chunks_[id.value()];
  if (absl::Status status = WarmUp(&chunk); !status.ok()) return status;
  chunk.samples += samples;
  return kernels::EncodePayload(
      chunk.encoder.get(), absl::MakeConstSpan(sum.floats(), sum.float_count()), &scratch_, pool_);
}

size_t PushEncoder::memory_bytes() const { return state_bytes_ + pool_.allocated_bytes(); }

}  // namespace strata::worker
