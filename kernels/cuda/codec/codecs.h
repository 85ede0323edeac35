#ifndef STRATA_KERNELS_CUDA_CODEC_CODECS_H_
#define STRATA_KERNELS_CUDA_CODEC_CODECS_H_

#include "kernels/device/device_kernels.h"

namespace strata::cuda {

// Contracts: device::DeviceSparseCodec.
absl::Status Accumulate(device::Stream& stream, const float* x,
                        const kernels::Accumulators& accumulators, uint32_t threshold,
                        const kernels::Candidates& to, size_t n, uint32_t* count);
absl::Status Select(device::Stream& stream, const float* p, uint32_t threshold,
                    const kernels::Candidates& to, size_t n, uint32_t* count);
absl::Status Sample(device::Stream& stream, const float* x,
                    const kernels::Accumulators& accumulators, uint32_t* bits, size_t n);
absl::Status Count(device::Stream& stream, const uint32_t* bits, size_t n, uint32_t threshold,
                   uint32_t* count);
absl::Status SelectBetween(device::Stream& stream, const uint32_t* bits, size_t n, uint32_t low,
                           uint32_t high, uint32_t* to, uint32_t* count);
absl::Status Keep(device::Stream& stream, const kernels::Candidates& from, size_t n,
                  uint32_t threshold, const kernels::Candidates& to, uint32_t* count);
absl::Status IndicesAscend(device::Stream& stream, const std::byte* indices, size_t count, size_t n,
                           device::Verdict* verdict);
absl::Status EncodeLargest(device::Stream& stream, const float* x,
                           const kernels::Accumulators& accumulators, size_t n, uint32_t k,
                           std::byte* payload, device::Verdict* verdict);
absl::Status AddSparse(device::Stream& stream, const std::byte* indices, const std::byte* values,
                       size_t count, float* out);

// Formats: common/wire/payload.h.
device::DeviceDenseCodec Float16Codec();
device::DeviceDenseCodec BFloat16Codec();
device::DeviceDenseCodec Int8Codec();
device::DeviceDenseCodec OneBitCodec();

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CODEC_CODECS_H_
