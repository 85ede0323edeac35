#ifndef STRATA_COMPRESSION_ENCODE_PAYLOAD_H_
#define STRATA_COMPRESSION_ENCODE_PAYLOAD_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "compression/encoder.h"

namespace strata::kernels {

// What Encoder::Encode makes of `values`, in a buffer of the pool that is as large as the payload:
// sparse ones are far smaller than the largest. Errors: those of Encode.
absl::StatusOr<Bytes> EncodePayload(Encoder* encoder, absl::Span<const float> values,
                                    EncoderScratch* scratch, BufferPool& pool);

}  // namespace strata::kernels

#endif  // STRATA_COMPRESSION_ENCODE_PAYLOAD_H_
