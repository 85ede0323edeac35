#include "compression/encode_payload.h"

#include "common/copies.h"

namespace strata::kernels {

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

}  // namespace strata::kernels
