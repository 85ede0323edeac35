#ifndef STRATA_KERNELS_CUDA_SPARSE_CUH_
#define STRATA_KERNELS_CUDA_SPARSE_CUH_

#include "kernels/cuda/update/elementwise.cuh"

// Shared by the kernels for sparse payloads: the candidate elements, and the choice.
namespace strata::cuda {

inline constexpr unsigned kWarps = kThreads / kLanes;
inline constexpr uint32_t kMagnitude = 0x7fffffff;

// A range of magnitudes: from `low` on, `width` of them.
struct Band {
  uint32_t low, width;
  __device__ __forceinline__ bool Has(uint32_t bits) const {
    return (bits & kMagnitude) - low < width;
  }
};
inline Band Between(uint32_t low, uint32_t high) { return {low, high > low ? high - low : 0}; }
inline Band From(uint32_t threshold) { return Between(threshold, kMagnitude + 1); }

template <unsigned kWidth>
__device__ __forceinline__ void Load(const float* at, float (&to)[kWidth]) {
  if constexpr (kWidth == 4) {
    const float4 values = *reinterpret_cast<const float4*>(at);
    to[0] = values.x, to[1] = values.y, to[2] = values.z, to[3] = values.w;
  } else {
    to[0] = *at;
  }
}
template <unsigned kWidth>
__device__ __forceinline__ void Store(const float (&values)[kWidth], float* at) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(at) = make_float4(values[0], values[1], values[2], values[3]);
  } else {
    *at = values[0];
  }
}

// Sources of p: Take returns kWidth elements of it from i on.

// An existing p.
struct Stored {
  const float* values;
  template <unsigned kWidth>
  __device__ __forceinline__ void Take(size_t i, float (&p)[kWidth]) const {
    Load(values + i, p);
  }
};

inline Stored BitsOf(const uint32_t* bits) { return {reinterpret_cast<const float*>(bits)}; }

// kFollow.
struct Difference {
  const float *x, *state;
  template <unsigned kWidth>
  __device__ __forceinline__ void Take(size_t i, float (&p)[kWidth]) const {
    float had[kWidth];
    Load(x + i, p);
    Load(state + i, had);
    for (unsigned j = 0; j < kWidth; ++j) p[j] -= had[j];
  }
};

// kResidual; state and momentum change if kStore.
template <bool kMomentum, bool kStore>
struct Sums {
  const float* x;
  float *state, *momentum;
  float factor;
  template <unsigned kWidth>
  __device__ __forceinline__ void Take(size_t i, float (&p)[kWidth]) const {
    float step[kWidth];
    Load(x + i, step);
    if constexpr (kMomentum) {
      float before[kWidth];
      Load(momentum + i, before);
      for (unsigned j = 0; j < kWidth; ++j) step[j] = factor * before[j] + step[j];
      if constexpr (kStore) Store(step, momentum + i);
    }
    Load(state + i, p);
    for (unsigned j = 0; j < kWidth; ++j) p[j] += step[j];
    if constexpr (kStore) Store(p, state + i);
  }
};

// Calls call(source) with the source that `from` requires.
template <bool kStore, typename Call>
absl::Status WithSource(const float* x, const kernels::Accumulators& from, Call call) {
  if (from.feedback == kernels::Feedback::kFollow) return call(Difference{x, from.state});
  if (from.momentum == nullptr) return call(Sums<false, kStore>{x, from.state, nullptr, 0});
  return call(Sums<true, kStore>{x, from.state, from.momentum, from.factor});
}

inline bool IsAligned(const kernels::Accumulators& of) {
  return IsAligned(of.state) && (of.momentum == nullptr || IsAligned(of.momentum));
}

// Returns the bits of kWidth elements from i on; for those beyond n, 0, which reaches no threshold.
template <unsigned kWidth, typename Source>
__device__ __forceinline__ void BitsAt(const Source& source, size_t i, size_t n,
                                       uint32_t (&bits)[kWidth]) {
  float p[kWidth] = {};
  if (i + kWidth <= n) {
    source.Take(i, p);
  } else {
    for (unsigned j = 0; j < kWidth; ++j) {
      float one[1] = {};
      if (i + j < n) source.Take(i + j, one);
      p[j] = one[0];
    }
  }
  for (unsigned j = 0; j < kWidth; ++j) bits[j] = __float_as_uint(p[j]);
}

// The elements that the calling thread's warp takes at once, lane by lane, and its range.
struct Range {
  size_t begin, end;
};
template <unsigned kWidth>
__device__ __forceinline__ Range RangeOfWarp(size_t n) {
  constexpr size_t kTile = kLanes * kWidth;
  const size_t warp = FirstItem() / kLanes, warps = ItemStride() / kLanes;
  const size_t tiles = (n + kTile - 1) / kTile, each = (tiles + warps - 1) / warps;
  const size_t begin = warp * each * kTile, end = begin + each * kTile;
  return {begin, end < n ? end : n};
}

struct WarpSums {
  unsigned of_block, before_warp;
};
// Sums over the lanes of a warp, and over the warps. REQUIRES: all threads call it, each kWhich
// once per kernel.
template <unsigned kWhich = 0>
__device__ __forceinline__ WarpSums SumOverBlock(unsigned value) {
  __shared__ unsigned sums[kWarps];
  const unsigned warp = threadIdx.x / kLanes;
  const unsigned sum = __reduce_add_sync(kAllLanes, value);
  if (threadIdx.x % kLanes == 0) sums[warp] = sum;
  __syncthreads();
  WarpSums all = {};
  for (unsigned w = 0; w < kWarps; ++w) {
    if (w == warp) all.before_warp = all.of_block;
    all.of_block += sums[w];
  }
  return all;
}

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_SPARSE_CUH_
