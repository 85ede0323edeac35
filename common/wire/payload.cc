#include "common/wire/payload.h"

#include "absl/strings/str_format.h"

namespace strata::wire {
namespace {

constexpr uint64_t kSparseHeadBytes = 4, kSparseElementBytes = 8;

}  // namespace

uint64_t EncodedBytesMax(Codec codec, uint64_t elements) {
  const uint64_t scales = CodecBlocks(elements) * sizeof(float);
  switch (codec) {
    case Codec::kNone:
      return elements * sizeof(float);
    case Codec::kFloat16:
      return scales + elements * 2;
    case Codec::kBFloat16:
      return elements * 2;
    case Codec::kInt8:
      return scales + elements;
    case Codec::kOneBit:
      return scales + (elements + 7) / 8;
    case Codec::kSparse:
      return kSparseHeadBytes + kSparseElementBytes * SparseCountMax(elements);
  }
  return 0;
}

absl::Status CheckEncodedBytes(Codec codec, uint64_t elements, uint64_t bytes) {
  if (static_cast<int>(codec) >= kCodecs) {
    return absl::InvalidArgumentError(
        absl::StrFormat("codec is %d, which is unknown", static_cast<int>(codec)));
  }
  const uint64_t most = EncodedBytesMax(codec, elements);
  const bool fits = codec == Codec::kSparse
                        ? bytes <= most && bytes % kSparseElementBytes == kSparseHeadBytes
                        : bytes == most;
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%d elements as %s are %s%d bytes, but payload_bytes is %d", elements,
                      ToString(codec), codec == Codec::kSparse ? "4 + 8 k <= " : "", most, bytes));
}

std::string ToString(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "fp32";
    case Codec::kFloat16:
      return "fp16";
    case Codec::kBFloat16:
      return "bf16";
    case Codec::kInt8:
      return "int8";
    case Codec::kOneBit:
      return "1-bit";
    case Codec::kSparse:
      return "sparse";
  }
  return absl::StrFormat("codec %d", static_cast<int>(codec));
}

}  // namespace strata::wire
