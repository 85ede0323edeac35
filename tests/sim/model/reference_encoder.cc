#include "tests/sim/model/reference_encoder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/testing/reference_codecs.h"

namespace strata::sim {
namespace {

using kernels::Feedback;

const kernels::DenseCodec& DenseOf(wire::Codec codec) {
  const kernels::CodecKernels& codecs = kernels::reference::Codecs();
  switch (codec) {
    case wire::Codec::kFloat16:
      return codecs.float16;
    case wire::Codec::kBFloat16:
      return codecs.bfloat16;
    case wire::Codec::kInt8:
      return codecs.int8;
    default:
      return codecs.one_bit;
  }
}

template <typename T>
void Append(T value, std::vector<std::byte>* to) {
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof value>>(value);
  for (const std::byte byte : bytes) to->push_back(byte);
}

}  // namespace

wire::Codec ReferenceCodec(const proto::Encoding& encoding) {
  switch (encoding.codec()) {
    case proto::Encoding::FP16:
      return wire::Codec::kFloat16;
    case proto::Encoding::BF16:
      return wire::Codec::kBFloat16;
    case proto::Encoding::INT8:
      return wire::Codec::kInt8;
    case proto::Encoding::ONE_BIT:
      return wire::Codec::kOneBit;
    case proto::Encoding::TOP_K:
    case proto::Encoding::DGC:
      return wire::Codec::kSparse;
    default:
      return wire::Codec::kNone;
  }
}

ReferenceEncoder::ReferenceEncoder(const proto::Encoding& encoding, Of of, std::vector<float> first)
    : encoding_(encoding), of_(of), state_(std::move(first)), momentum_(state_.size(), 0.0f) {}

double ReferenceEncoder::DensityAt(double epochs) const {
  if (encoding_.codec() != proto::Encoding::DGC) return encoding_.density();
  const double whole = encoding_.warmup_epochs();
  double density = encoding_.density();
  if (epochs < whole) {
    density = epochs < whole / 4       ? 0.25
              : epochs < whole / 2     ? 0.0625
              : epochs < whole * 3 / 4 ? 0.016
                                       : 0.004;
  }
  return std::max<double>(density, encoding_.density());
}

std::vector<std::byte> ReferenceEncoder::Encode(absl::Span<const float> x, double epochs) {
  return ReferenceCodec(encoding_) == wire::Codec::kSparse ? EncodeLargest(x, DensityAt(epochs))
                                                           : EncodeDense(x);
}

std::vector<std::byte> ReferenceEncoder::EncodeDense(absl::Span<const float> x) {
  const wire::Codec codec = ReferenceCodec(encoding_);
  std::vector<std::byte> payload(wire::EncodedBytesMax(codec, x.size()));
  const Feedback feedback = of_ == Of::kVersions ? Feedback::kFollow : Feedback::kResidual;
  DenseOf(codec).encode(x.data(), feedback, state_.data(), x.size(), payload.data());
  return payload;
}

std::vector<std::byte> ReferenceEncoder::EncodeLargest(absl::Span<const float> x, double density) {
  std::vector<float> p(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (of_ == Of::kVersions) {
      p[i] = x[i] - state_[i];
    } else if (encoding_.codec() == proto::Encoding::DGC) {
      const float kept = encoding_.momentum() * momentum_[i];
      momentum_[i] = kept + x[i];
      p[i] = state_[i] + momentum_[i];
    } else {
      p[i] = state_[i] + x[i];
    }
  }
  std::vector<uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return std::abs(p[a]) > std::abs(p[b]); });
  const auto most = std::max<size_t>(1, (x.size() - 1) / 2);
  size_t count = std::clamp<size_t>(std::llround(density * x.size()), 1, most);
  while (count > 0 && p[order[count - 1]] == 0) --count;
  order.resize(count);
  std::sort(order.begin(), order.end());
  std::vector<std::byte> payload;
  Append(static_cast<uint32_t>(count), &payload);
  for (const uint32_t i : order) Append(i, &payload);
  for (const uint32_t i : order) Append(p[i], &payload);
  if (of_ == Of::kIncrements) state_ = p;
  for (const uint32_t i : order) {
    state_[i] = of_ == Of::kVersions ? state_[i] + p[i] : 0.0f;
    momentum_[i] = 0;
  }
  return payload;
}

std::vector<float> ReferenceDecode(wire::Codec codec, size_t elements,
                                   absl::Span<const std::byte> payload) {
  std::vector<float> decoded(elements, 0.0f);
  if (codec == wire::Codec::kNone) {
    std::memcpy(decoded.data(), payload.data(), elements * sizeof(float));
  } else if (codec == wire::Codec::kSparse) {
    uint32_t count;
    std::memcpy(&count, payload.data(), 4);
    for (uint32_t j = 0; j < count; ++j) {
      uint32_t index;
      std::memcpy(&index, &payload[4 + 4 * j], 4);
      std::memcpy(&decoded[index], &payload[4 + 4 * (count + j)], 4);
    }
  } else {
    DenseOf(codec).decode(payload.data(), nullptr, decoded.data(), elements);
  }
  return decoded;
}

}  // namespace strata::sim
