#include "worker/aggregator/device/decode_payload.h"

#include "absl/types/span.h"
#include "common/wire/payload.h"

namespace strata::worker {

absl::Status DecodePayload(const device::DeviceKernels& kernels, device::Stream& stream,
                           const kernels::CheckedPayload& payload, const std::byte* at,
                           float* weights, device::Verdict* verdict) {
  const size_t n = payload.elements();
  switch (payload.codec()) {
    case wire::Codec::kFloat16:
      return kernels.float16.decode(stream, at, weights, weights, n);
    case wire::Codec::kBFloat16:
      return kernels.bfloat16.decode(stream, at, weights, weights, n);
    case wire::Codec::kInt8:
      return kernels.int8.decode(stream, at, weights, weights, n);
    case wire::Codec::kOneBit:
      return kernels.one_bit.decode(stream, at, weights, weights, n);
    case wire::Codec::kSparse: {
      const size_t count = (payload.payload().size() - sizeof(uint32_t)) / (2 * sizeof(uint32_t));
      const std::byte* const indices = at + sizeof(uint32_t);
      return kernels.sparse.add(stream, indices, indices + count * sizeof(uint32_t), count,
                                weights);
    }
    case wire::Codec::kNone: {
      const float* const inputs[] = {weights, reinterpret_cast<const float*>(at)};
      return kernels.sum(stream, absl::MakeConstSpan(inputs), weights, n, verdict);
    }
  }
  return absl::InternalError("a payload of no codec");
}

}  // namespace strata::worker
