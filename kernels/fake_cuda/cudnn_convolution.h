#ifndef STRATA_KERNELS_FAKE_CUDA_CUDNN_CONVOLUTION_H_
#define STRATA_KERNELS_FAKE_CUDA_CUDNN_CONVOLUTION_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/fake_cuda/products.h"

namespace fake_cuda {

// Channels last, by plain loops.
struct Convolution {
  enum Pass { kForward, kSourceGradient, kWeightGradient };
  using Dimensions = std::array<int64_t, 4>;  // N x C x H x W
  Pass pass = kForward;
  Dimensions source, weights, output;
  int64_t padding[2], stride[2];

  bool Fits() const;
  // Values of the pass's result are written.
  void Compute(const Values& source, const Values& weights, const Values& output) const;
};

}  // namespace fake_cuda

#endif  // STRATA_KERNELS_FAKE_CUDA_CUDNN_CONVOLUTION_H_
