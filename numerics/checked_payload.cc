#include "numerics/checked_payload.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"

namespace strata::numerics {
namespace {

uint32_t WordAt(absl::Span<const std::byte> payload, size_t at) {
  uint32_t word;
  std::memcpy(&word, payload.data() + at, sizeof word);
  return word;
}

const float* FloatsAt(absl::Span<const std::byte> payload, size_t at) {
  return reinterpret_cast<const float*>(payload.data() + at);
}

absl::Status Refuse(wire::Codec codec, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrFormat("%s payload: %s", wire::ToString(codec), what));
}

absl::Status CheckSparse(const kernels::Kernels& kernels, size_t elements,
                         absl::Span<const std::byte> payload) {
  const uint64_t count = WordAt(payload, 0);
  if (payload.size() != kSparseHead + 8 * count) {
    return Refuse(wire::Codec::kSparse,
                  absl::StrFormat("count is %d, but payload_bytes is %d", count, payload.size()));
  }
  const std::byte* indices = payload.data() + kSparseHead;
  if (!kernels.codec.sparse.indices_ascend(indices, count, elements)) {
    return Refuse(wire::Codec::kSparse,
                  absl::StrFormat("indices do not ascend strictly to at most %d", elements - 1));
  }
  if (!kernels.all_finite(FloatsAt(payload, kSparseHead + 4 * count), count)) {
    return Refuse(wire::Codec::kSparse, "a value is NaN or infinite");
  }
  return absl::OkStatus();
}

absl::Status CheckDense(const kernels::DenseCodec& dense, wire::Codec codec, size_t elements,
                        absl::Span<const std::byte> payload) {
  const size_t blocks = wire::CodecBlocks(elements);
  const size_t block = dense.check(payload.data(), elements);
  if (block == blocks) return absl::OkStatus();
  const size_t first = block * wire::kCodecBlock;
  const size_t last = std::min(first + wire::kCodecBlock, elements) - 1;
  return Refuse(codec,
                absl::StrFormat("scale or code of elements %d to %d is not allowed", first, last));
}

}  // namespace

absl::StatusOr<CheckedPayload> CheckedPayload::Check(const kernels::Kernels& kernels,
                                                     wire::Codec codec, size_t elements,
                                                     absl::Span<const std::byte> payload) {
  absl::Status status = wire::CheckEncodedBytes(codec, elements, payload.size());
  if (!status.ok()) return status;
  if (codec == wire::Codec::kNone) {
    if (!kernels.all_finite(FloatsAt(payload, 0), elements)) {
      status = Refuse(codec, "an element is NaN or infinite");
    }
  } else if (codec == wire::Codec::kSparse) {
    status = CheckSparse(kernels, elements, payload);
  } else {
    status = CheckDense(*FindDenseCodec(kernels, codec), codec, elements, payload);
  }
  if (!status.ok()) return status;
  return CheckedPayload(kernels, codec, elements, payload);
}

void CheckedPayload::AddSparse(float* out) const {
  const size_t count = WordAt(payload_, 0);
  const std::byte* indices = payload_.data() + kSparseHead;
  const std::byte* values = indices + 4 * count;
  for (size_t j = 0; j < count; ++j) {
    uint32_t index;
    float value;
    std::memcpy(&index, indices + 4 * j, sizeof index);
    std::memcpy(&value, values + 4 * j, sizeof value);
    out[index] += value;
  }
}

void CheckedPayload::WriteTo(float* out) const {
  if (elements_ == 0) return;
  if (codec_ == wire::Codec::kNone) {
    std::memcpy(out, payload_.data(), payload_.size());
  } else if (codec_ == wire::Codec::kSparse) {
    std::memset(out, 0, elements_ * sizeof(float));
    AddSparse(out);
  } else {
    FindDenseCodec(*kernels_, codec_)->decode(payload_.data(), nullptr, out, elements_);
  }
}

void CheckedPayload::AddTo(const float* base, float* out) const {
  if (elements_ == 0) return;
  if (codec_ == wire::Codec::kNone) {
    kernels_->sum({base, FloatsAt(payload_, 0)}, out, elements_);
  } else if (codec_ == wire::Codec::kSparse) {
    if (base != out) std::memcpy(out, base, elements_ * sizeof(float));
    AddSparse(out);
  } else {
    FindDenseCodec(*kernels_, codec_)->decode(payload_.data(), base, out, elements_);
  }
}

}  // namespace strata::numerics
