#include "numerics/encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "common/diverged.h"
#include "numerics/checked_payload.h"
#include "numerics/top_k.h"

namespace strata::numerics {

namespace {

constexpr double kDensityMax = 0.5;
constexpr double kDgcWarmUp[] = {0.25, 0.0625, 0.016, 0.004, 0.001};
constexpr uint32_t kInfinityBits = 0x7f800000;

bool IsSparse(Compression compression) { return wire::Codec::kSparse == WireCodec(compression); }

absl::Status CheckDensity(double density) {
  if (density > 0 && density <= kDensityMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("density is %g, not above 0 and at most %g", density, kDensityMax));
}

}  // namespace

absl::Status CompressionOptions::Validate() const {
  if (IsSparse(compression)) {
    if (absl::Status status = CheckDensity(density); !status.ok()) return status;
  }
  if (compression == Compression::kDgc && !(momentum >= 0 && momentum < 1)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("momentum is %g, not at least 0 and below 1", momentum));
  }
  const bool needs_feedback = compression == Compression::kOneBit || IsSparse(compression);
  if (feedback == kernels::Feedback::kNone && needs_feedback) {
    return absl::InvalidArgumentError(absl::StrFormat("feedback is off, which %s does not allow",
                                                      wire::ToString(WireCodec(compression))));
  }
  if (feedback != kernels::Feedback::kResidual && compression == Compression::kDgc) {
    return absl::InvalidArgumentError("DGC compresses gradients, not versions of weights");
  }
  return absl::OkStatus();
}

wire::Codec WireCodec(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return wire::Codec::kNone;
    case Compression::kFloat16:
      return wire::Codec::kFloat16;
    case Compression::kBFloat16:
      return wire::Codec::kBFloat16;
    case Compression::kInt8:
      return wire::Codec::kInt8;
    case Compression::kOneBit:
      return wire::Codec::kOneBit;
    case Compression::kTopK:
    case Compression::kDgc:
      return wire::Codec::kSparse;
  }
  return wire::Codec::kNone;
}

int StateVectors(const CompressionOptions& options) {
  if (options.compression == Compression::kNone || options.feedback == kernels::Feedback::kNone)
    return 0;
  return options.compression == Compression::kDgc ? 2 : 1;
}

double DgcDensity(int epoch, double density) {
  const bool warms_up = epoch >= 0 && epoch < static_cast<int>(std::size(kDgcWarmUp));
  return warms_up ? std::max(kDgcWarmUp[epoch], density) : density;
}

absl::StatusOr<std::unique_ptr<Encoder>> Encoder::Create(const CompressionOptions& options,
                                                         size_t elements,
                                                         const kernels::Kernels& kernels) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  return absl::WrapUnique(new Encoder(options, elements, kernels));
}

Encoder::Encoder(const CompressionOptions& options, size_t elements,
                 const kernels::Kernels& kernels)
    : options_(options),
      elements_(elements),
      kernels_(kernels),
      state_(StateVectors(options) * elements) {}

absl::StatusOr<size_t> Encoder::Encode(absl::Span<const float> x, EncoderScratch* scratch,
                                       absl::Span<std::byte> payload) {
  if (x.size() != elements_ || payload.size() < encoded_bytes_max()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d elements and room for %d bytes, not %d elements and %d bytes", x.size(),
                        payload.size(), elements_, encoded_bytes_max()));
  }
  if (state_is_lost_) {
    return absl::FailedPreconditionError("the state was lost when an element was refused");
  }
  size_t bytes = encoded_bytes_max();
  const bool encoded = IsSparse(options_.compression)
                           ? EncodeLargest(x.data(), scratch, payload.data(), &bytes)
                           : EncodeDense(x.data(), payload.data());
  if (!encoded) return Failed(x);
  return bytes;
}

bool Encoder::EncodeDense(const float* x, std::byte* payload) {
  if (elements_ == 0) return true;
  if (options_.compression != Compression::kNone) {
    return FindDenseCodec(kernels_, codec())
        ->encode(x, options_.feedback, StateAt(0), elements_, payload);
  }
  std::memcpy(payload, x, elements_ * sizeof(float));
  return kernels_.all_finite(x, elements_);
}

bool Encoder::EncodeLargest(const float* x, EncoderScratch* scratch, std::byte* payload,
                            size_t* bytes) {
  const kernels::SparseCodec& sparse = kernels_.codec.sparse;
  const kernels::Accumulators accumulators = {.feedback = options_.feedback,
                                              .state = StateAt(0),
                                              .momentum = IsDgc() ? StateAt(1) : nullptr,
                                              .factor = options_.momentum};
  size_t k = LargestCount(options_.density, elements_);

  const size_t room = std::max(elements_, kernels::kSampleMax) + kernels::kCandidateSlack;
  for (std::vector<uint32_t>* buffer : {&scratch->indices_, &scratch->bits_, &scratch->spare_}) {
    buffer->resize(std::max(buffer->size(), room));
  }
  const kernels::Candidates candidates = {scratch->indices_.data(), scratch->bits_.data()};
  uint32_t* spare = scratch->spare_.data();
  const size_t sampled = sparse.sample(x, accumulators, candidates.bits, elements_);
  uint32_t threshold = ThresholdFromSample(sparse, candidates.bits, sampled, elements_, k, spare);
  size_t count = sparse.accumulate(x, accumulators, threshold, candidates, elements_);
  if (count < k && threshold > 1) {
    // The sample suggested too many: all non-zero elements are candidates.
    threshold = 1;
    count = options_.feedback == kernels::Feedback::kFollow
                ? sparse.accumulate(x, accumulators, threshold, candidates, elements_)
                : sparse.select(accumulators.state, threshold, candidates, elements_);
  }
  k = std::min(k, count);
  *bytes = kSparseHead + 8 * k;
  const auto written = static_cast<uint32_t>(k);
  std::memcpy(payload, &written, sizeof written);
  if (k == 0) return true;
  KeepLargest(sparse, candidates, count, k, threshold, spare);
  std::memcpy(payload + kSparseHead, candidates.indices, 4 * k);
  std::memcpy(payload + kSparseHead + 4 * k, candidates.bits, 4 * k);
  // NaN and infinity are larger than every other magnitude, so if there is one, one is chosen.
  if (sparse.count(candidates.bits, k, kInfinityBits) > 0) return false;
  Sent(candidates, k);
  return true;
}

// Changes the state by what was sent.
void Encoder::Sent(const kernels::Candidates& sent, size_t count) {
  float* state = StateAt(0);
  if (options_.feedback == kernels::Feedback::kFollow) {
    for (size_t j = 0; j < count; ++j) {
      state[sent.indices[j]] += std::bit_cast<float>(sent.bits[j]);
    }
    return;
  }
  for (size_t j = 0; j < count; ++j) state[sent.indices[j]] = 0.0f;
  if (!IsDgc()) return;
  float* momentum = StateAt(1);
  for (size_t j = 0; j < count; ++j) momentum[sent.indices[j]] = 0.0f;
}

absl::Status Encoder::Failed(absl::Span<const float> x) {
  state_is_lost_ = !state_.empty();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) {
      return DivergedError(absl::StrFormat("element %d is %g", i, x[i]));
    }
  }
  return DivergedError(
      absl::StrFormat("elements, with the state, are too large for %s", wire::ToString(codec())));
}

absl::Status Encoder::SetDensity(double density) {
  if (absl::Status status = CheckDensity(density); !status.ok()) return status;
  options_.density = density;
  return absl::OkStatus();
}

absl::Span<const float> Encoder::State(int vector) const {
  return absl::MakeConstSpan(state_).subspan(vector * elements_, elements_);
}

absl::Status Encoder::Restore(absl::Span<const absl::Span<const float>> state) {
  const size_t vectors = StateVectors(options_);
  if (!state.empty() && state.size() != vectors) {
    return absl::InvalidArgumentError(
        absl::StrFormat("state of %d vectors, not %d", state.size(), vectors));
  }
  for (size_t i = 0; i < state.size(); ++i) {
    if (state[i].size() != elements_) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "vector %d of the state has %d elements, not %d", i, state[i].size(), elements_));
    }
    if (!kernels_.all_finite(state[i].data(), elements_)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("vector %d of the state holds NaN or infinity", i));
    }
  }
  std::fill(state_.begin(), state_.end(), 0.0f);
  for (size_t i = 0; i < state.size(); ++i) {
    std::copy(state[i].begin(), state[i].end(), StateAt(static_cast<int>(i)));
  }
  state_is_lost_ = false;
  return absl::OkStatus();
}

absl::StatusOr<Bytes> EncodePayload(Encoder* encoder, absl::Span<const float> values,
                                    EncoderScratch* scratch, BufferPool& pool) {
  const size_t room = encoder->encoded_bytes_max();
  std::shared_ptr<std::byte> payload = pool.AllocateBytes(room);
  const absl::StatusOr<size_t> size =
      encoder->Encode(values, scratch, absl::MakeSpan(payload.get(), room));
  if (!size.ok()) return size.status();
  if (*size < room) {
    const std::shared_ptr<std::byte> exact = pool.AllocateBytes(*size);
    CopyBytes(CopyReason::kSparse, exact.get(), payload.get(), *size);
    payload = exact;
  }
  return Bytes(payload, payload.get(), *size);
}

namespace {

constexpr int kWarmUpStages = 4;  // of DgcDensity, before the last one

Compression MakeCompression(proto::Encoding::Codec codec) {
  switch (codec) {
    case proto::Encoding::FP16:
      return Compression::kFloat16;
    case proto::Encoding::BF16:
      return Compression::kBFloat16;
    case proto::Encoding::INT8:
      return Compression::kInt8;
    case proto::Encoding::ONE_BIT:
      return Compression::kOneBit;
    case proto::Encoding::TOP_K:
      return Compression::kTopK;
    case proto::Encoding::DGC:
      return Compression::kDgc;
    default:
      return Compression::kNone;
  }
}

}  // namespace

CompressionOptions MakeCompression(const proto::Encoding& encoding, kernels::Feedback feedback) {
  CompressionOptions options;
  options.compression = MakeCompression(encoding.codec());
  options.feedback = feedback;
  if (encoding.has_density()) options.density = encoding.density();
  if (encoding.has_momentum()) options.momentum = encoding.momentum();
  return options;
}

wire::Codec WireCodec(const proto::Encoding& encoding) {
  return WireCodec(MakeCompression(encoding.codec()));
}

double DgcDensityAt(const proto::Encoding& encoding, double epochs) {
  const double stages = epochs * kWarmUpStages / encoding.warmup_epochs();
  if (!(stages < kWarmUpStages)) return encoding.density();
  return DgcDensity(static_cast<int>(stages), encoding.density());
}

}  // namespace strata::numerics
