#ifndef STRATA_KERNELS_CUDA_LAYERS_VALUES_CUH_
#define STRATA_KERNELS_CUDA_LAYERS_VALUES_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/update/elementwise.cuh"
#include "kernels/device/layer_kernels.h"

// Shared by the kernels of layers: elements, packs of them, and loops over rows of channels.
namespace strata::cuda {

// The upper half of a float.
struct BFloat16 {
  uint16_t bits;
};

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(BFloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

// Rounds to nearest even.
__device__ __forceinline__ void Set(float& out, float value) { out = value; }
__device__ __forceinline__ void Set(BFloat16& out, float value) {
  const unsigned bits = __float_as_uint(value);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  out.bits =
      static_cast<uint16_t>((is_nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// V elements that are read and written as one.
template <typename T, unsigned V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};
template <typename T>
inline constexpr unsigned kPack = 16 / sizeof(T);

template <unsigned V, typename T>
__device__ __forceinline__ Pack<T, V> Load(const T* from) {
  return *reinterpret_cast<const Pack<T, V>*>(from);
}
template <unsigned V, typename T>
__device__ __forceinline__ void Store(T* to, const Pack<T, V>& values) {
  *reinterpret_cast<Pack<T, V>*>(to) = values;
}

// Calls call(T(), constant V) for elements of this kind, in packs if `packs`.
template <unsigned V>
struct Width {
  static constexpr unsigned kWidth = V;
};
template <typename Call>
absl::Status ForElement(device::Element element, bool packs, Call call) {
  if (element == device::Element::kBFloat16) {
    return packs ? call(BFloat16(), Width<kPack<BFloat16>>()) : call(BFloat16(), Width<1>());
  }
  return packs ? call(float(), Width<kPack<float>>()) : call(float(), Width<1>());
}

inline bool DividesIntoPacks(device::Element element, size_t count) {
  return count % (16 / device::ElementBytes(element)) == 0;
}

// A grid over rows of channels: each thread handles V channels, `lanes` adjacent threads handle V *
// lanes, and goes from row to row. All of its blocks run at once: a second round would find the
// device half empty.
inline constexpr unsigned kRowBlocksPerMultiprocessor = 3;  // what their registers leave room for

struct RowGrid {
  dim3 blocks;
  unsigned lanes = 1;
};

inline RowGrid RowGridFor(const CudaStream& stream, size_t rows, uint32_t channels, unsigned v) {
  constexpr size_t kRowsOfThread = 4;  // fewer are not worth a thread
  RowGrid grid;
  const unsigned groups = channels / v;
  while (grid.lanes < groups && grid.lanes < kLanes) grid.lanes *= 2;
  grid.blocks.x = (groups + grid.lanes - 1) / grid.lanes;
  const size_t rows_of_block = kRowsOfThread * (kThreads / grid.lanes);
  const size_t wanted = (rows + rows_of_block - 1) / rows_of_block;
  const size_t most =
      static_cast<size_t>(stream.multiprocessors()) * kRowBlocksPerMultiprocessor / grid.blocks.x;
  grid.blocks.y = static_cast<unsigned>(std::min<size_t>(
      std::max<size_t>(std::min(wanted, most), 1), device::RowBlocksMax(channels)));
  return grid;
}

// The thread's first channel.
template <unsigned V>
__device__ __forceinline__ unsigned ChannelOf(unsigned lanes) {
  return (blockIdx.x * lanes + threadIdx.x % lanes) * V;
}

// Calls each(index of the element, load(that)) for the thread's rows. kAtOnce rows are loaded
// before the first of them is processed, so that enough bytes are in flight: 64 per thread, or 48
// KiB per multiprocessor. The compiler does not move a load before a store that may alias it.
template <unsigned V, unsigned kAtOnce, typename LoadOf, typename Each>
__device__ __forceinline__ void ForEachRow(size_t rows, unsigned channels, unsigned lanes,
                                           LoadOf load, Each each) {
  const unsigned channel = ChannelOf<V>(lanes);
  if (channel >= channels) return;
  const unsigned rows_of_block = kThreads / lanes;
  const size_t step = static_cast<size_t>(gridDim.y) * rows_of_block;
  size_t row = static_cast<size_t>(blockIdx.y) * rows_of_block + threadIdx.x / lanes;
  for (; row + (kAtOnce - 1) * step < rows; row += kAtOnce * step) {
    decltype(load(row)) loaded[kAtOnce];
#pragma unroll
    for (unsigned u = 0; u < kAtOnce; ++u) {
      loaded[u] = load((row + u * step) * channels + channel);
    }
#pragma unroll
    for (unsigned u = 0; u < kAtOnce; ++u) {
      each((row + u * step) * channels + channel, loaded[u]);
    }
  }
  for (; row < rows; row += step) {
    const size_t at = row * channels + channel;
    each(at, load(at));
  }
}

// Adds up the block's sums: partial[(blockIdx.y * K + k) * channels + channel]. All threads call.
template <unsigned K, unsigned V>
__device__ __forceinline__ void SumBlock(const float (&sums)[K][V], unsigned channels,
                                         unsigned lanes, float* partial) {
  __shared__ float shared[K * V * kThreads];
  const unsigned t = threadIdx.x;
#pragma unroll
  for (unsigned i = 0; i < K * V; ++i) shared[i * kThreads + t] = sums[i / V][i % V];
  for (unsigned half = kThreads / 2; half >= lanes; half /= 2) {
    __syncthreads();
    if (t < half) {
#pragma unroll
      for (unsigned i = 0; i < K * V; ++i) {
        shared[i * kThreads + t] += shared[i * kThreads + t + half];
      }
    }
  }
  const unsigned channel = ChannelOf<V>(lanes);
  if (t >= lanes || channel >= channels) return;
#pragma unroll
  for (unsigned i = 0; i < K * V; ++i) {
    partial[(static_cast<size_t>(blockIdx.y) * K + i / V) * channels + channel + i % V] =
        shared[i * kThreads + t];
  }
}

// Adds up the results of SumBlock from `blocks` blocks: a thread adds up one channel of every
// kTotalParts-th, and its neighbours the adjacent channels, 32 bytes together. Returns true for the
// threads that have the totals of their channel (ChannelOfTotals). All threads call it.
inline constexpr unsigned kTotalLanes = 8;
inline constexpr unsigned kTotalParts = kThreads / kTotalLanes;

__device__ __forceinline__ unsigned ChannelOfTotals() {
  return blockIdx.x * kTotalLanes + threadIdx.x % kTotalLanes;
}
template <unsigned K>
__device__ __forceinline__ bool Totals(const float* partial, unsigned blocks, unsigned channels,
                                       double (&totals)[K]) {
  __shared__ double shared[K][kTotalParts][kTotalLanes];
  const unsigned lane = threadIdx.x % kTotalLanes, part = threadIdx.x / kTotalLanes;
  const unsigned channel = ChannelOfTotals();
  double sums[K] = {};
  if (channel < channels) {
#pragma unroll 4
    for (unsigned b = part; b < blocks; b += kTotalParts) {
#pragma unroll
      for (unsigned k = 0; k < K; ++k) {
        sums[k] += partial[(static_cast<size_t>(b) * K + k) * channels + channel];
      }
    }
  }
#pragma unroll
  for (unsigned k = 0; k < K; ++k) shared[k][part][lane] = sums[k];
  for (unsigned half = kTotalParts / 2; half > 0; half /= 2) {
    __syncthreads();
    if (part < half) {
#pragma unroll
      for (unsigned k = 0; k < K; ++k) shared[k][part][lane] += shared[k][part + half][lane];
    }
  }
  if (part != 0 || channel >= channels) return false;
#pragma unroll
  for (unsigned k = 0; k < K; ++k) totals[k] = shared[k][0][lane];
  return true;
}

inline dim3 BlocksOfTotals(uint32_t channels) {
  dim3 blocks;
  blocks.x = (channels + kTotalLanes - 1) / kTotalLanes;
  return blocks;
}

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_LAYERS_VALUES_CUH_
