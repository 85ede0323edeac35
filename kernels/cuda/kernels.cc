#include "kernels/cuda/codec/dense_codecs.h"
#include "kernels/cuda/codec/sparse.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/update/compensate.h"
#include "kernels/cuda/update/optimize.h"
#include "kernels/cuda/update/sum.h"

namespace strata::cuda {

const device::DeviceKernels& Kernels() {
  static const device::DeviceKernels kKernels = {
      .sum = Sum,
      .optimize = Optimize,
      .compensate = Compensate,
      .check_finite = CheckFinite,
      .float16 = Float16Codec(),
      .bfloat16 = BFloat16Codec(),
      .int8 = Int8Codec(),
      .one_bit = OneBitCodec(),
      .sparse = {Accumulate, Select, Sample, Count, SelectBetween, Keep, IndicesAscend, AddSparse,
                 EncodeLargest},
  };
  return kKernels;
}

}  // namespace strata::cuda
