#ifndef STRATA_KERNELS_CUDA_CODEC_DENSE_CODECS_H_
#define STRATA_KERNELS_CUDA_CODEC_DENSE_CODECS_H_

#include "kernels/device/device_kernels.h"

namespace strata::cuda {

// Formats: common/wire/payload.h.
device::DeviceDenseCodec Float16Codec();
device::DeviceDenseCodec BFloat16Codec();
device::DeviceDenseCodec Int8Codec();
device::DeviceDenseCodec OneBitCodec();

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CODEC_DENSE_CODECS_H_
