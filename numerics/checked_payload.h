#ifndef STRATA_NUMERICS_CHECKED_PAYLOAD_H_
#define STRATA_NUMERICS_CHECKED_PAYLOAD_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/payload.h"
#include "kernels/kernels.h"

namespace strata::numerics {

// Returns the functions of a payload's format; null for kNone and kSparse.
inline const kernels::DenseCodec* FindDenseCodec(const kernels::Kernels& kernels,
                                                 wire::Codec codec) {
  switch (codec) {
    case wire::Codec::kFloat16:
      return &kernels.codec.float16;
    case wire::Codec::kBFloat16:
      return &kernels.codec.bfloat16;
    case wire::Codec::kInt8:
      return &kernels.codec.int8;
    case wire::Codec::kOneBit:
      return &kernels.codec.one_bit;
    case wire::Codec::kNone:
    case wire::Codec::kSparse:
      break;
  }
  return nullptr;
}

// Bytes of a sparse payload before its indices and values: their count.
inline constexpr size_t kSparseHead = 4;

// The payload of a frame after every byte of it has been checked. There is no other way to decode
// one, so nothing is written before all of it is known to be valid, and all written values are
// finite. A view: the bytes must outlive it. Immutable, for any thread.
class CheckedPayload {
 public:
  // `payload` may start at any address (as fp32: at a multiple of 4). Errors: InvalidArgument
  // naming what is wrong and where: size, scale, code, count, index or value.
  static absl::StatusOr<CheckedPayload> Check(const kernels::Kernels& kernels, wire::Codec codec,
                                              size_t elements, absl::Span<const std::byte> payload);

  size_t elements() const { return elements_; }
  wire::Codec codec() const { return codec_; }
  absl::Span<const std::byte> payload() const { return payload_; }

  // out[i] = decoded[i], for all elements.
  void WriteTo(float* out) const;
  // out[i] = base[i] + decoded[i] in one pass; `base` may be `out`.
  void AddTo(const float* base, float* out) const;

 private:
  CheckedPayload(const kernels::Kernels& kernels, wire::Codec codec, size_t elements,
                 absl::Span<const std::byte> payload)
      : kernels_(&kernels), codec_(codec), elements_(elements), payload_(payload) {}
  void AddSparse(float* out) const;

  const kernels::Kernels* kernels_;
  wire::Codec codec_;
  size_t elements_;
  absl::Span<const std::byte> payload_;
};

}  // namespace strata::numerics

#endif  // STRATA_NUMERICS_CHECKED_PAYLOAD_H_
