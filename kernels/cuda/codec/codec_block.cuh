#ifndef STRATA_KERNELS_CUDA_CODEC_BLOCK_CUH_
#define STRATA_KERNELS_CUDA_CODEC_BLOCK_CUH_

#include "common/wire/payload.h"
#include "kernels/cuda/update/elementwise.cuh"

// One block of kCodecBlock elements in the registers of a warp, for encoders: read once and written
// once, with no barrier in between. Registers beyond the vector's end are 0.
namespace strata::cuda {

using kernels::Feedback;
using wire::kCodecBlock;

inline constexpr unsigned kPerLane = kCodecBlock / kLanes;
// Two warps, so that the blocks of a short vector are spread over many multiprocessors.
inline constexpr unsigned kEncodeThreads = 64;

inline dim3 ThreadsOfEncoder() {
  dim3 threads;
  threads.x = kEncodeThreads;
  return threads;
}
// A warp for each block of n elements.
inline dim3 BlocksOfEncoder(size_t n) {
  constexpr size_t kElementsOfThreads = kEncodeThreads / kLanes * kCodecBlock;
  dim3 blocks;
  blocks.x = static_cast<unsigned>((n + kElementsOfThreads - 1) / kElementsOfThreads);
  return blocks;
}

// How a block's elements are distributed over lanes. kFours: four consecutive ones each, for whole
// blocks at multiples of 16 bytes. kRows: one of 32 consecutive ones each, at any address and of
// any length.
enum class Deal { kFours, kRows };
template <Deal kDeal>
__device__ __forceinline__ unsigned ElementOf(unsigned lane, unsigned r) {
  return kDeal == Deal::kFours ? r / 4 * (4 * kLanes) + 4 * lane + r % 4 : r * kLanes + lane;
}

template <Deal kDeal>
__device__ __forceinline__ void ReadBlock(const float* block, unsigned count, unsigned lane,
                                          float (&to)[kPerLane]) {
  if constexpr (kDeal == Deal::kFours) {
#pragma unroll
    for (unsigned r = 0; r < kPerLane; r += 4) {
      const float4 four = Read<float4>(block, ElementOf<kDeal>(lane, r));
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) to[r + j] = Element(four, j);
    }
  } else {
#pragma unroll
    for (unsigned r = 0; r < kPerLane; ++r) {
      const unsigned i = ElementOf<kDeal>(lane, r);
      to[r] = i < count ? block[i] : 0.0f;
    }
  }
}

template <Deal kDeal>
__device__ __forceinline__ void WriteBlock(const float (&from)[kPerLane], unsigned count,
                                           unsigned lane, float* block) {
  if constexpr (kDeal == Deal::kFours) {
#pragma unroll
    for (unsigned r = 0; r < kPerLane; r += 4) {
      Write(make_float4(from[r], from[r + 1], from[r + 2], from[r + 3]), block,
            ElementOf<kDeal>(lane, r));
    }
  } else {
#pragma unroll
    for (unsigned r = 0; r < kPerLane; ++r) {
      const unsigned i = ElementOf<kDeal>(lane, r);
      if (i < count) block[i] = from[r];
    }
  }
}

// Computes the encoded vector from x and its state, and the state once `decoded` was sent.
template <Feedback kFeedback>
__device__ __forceinline__ float ToSend(float x, float state) {
  if constexpr (kFeedback == Feedback::kResidual) return x + state;
  if constexpr (kFeedback == Feedback::kFollow) return x - state;
  return x;
}
template <Feedback kFeedback>
__device__ __forceinline__ float Kept(float p, float state, float decoded) {
  return kFeedback == Feedback::kFollow ? state + decoded : p - decoded;
}

// One block of a vector, and of its payload.
struct CodecBlock {
  const float* x;
  float* state;
  unsigned count;
  float* scale;
  std::byte* codes;
  device::Verdict* verdict;
};

// Returns the calling warp's block. REQUIRES: there is one.
template <unsigned kBits>
__device__ __forceinline__ CodecBlock BlockOf(size_t block, size_t blocks, const float* x,
                                              float* state, size_t n, std::byte* payload,
                                              device::Verdict* verdict) {
  const size_t first = block * kCodecBlock;
  return {.x = x + first,
          .state = state == nullptr ? nullptr : state + first,
          .count = static_cast<unsigned>(n - first < kCodecBlock ? n - first : kCodecBlock),
          .scale = reinterpret_cast<float*>(payload) + block,
          .codes = payload + 4 * blocks + first / 8 * kBits,
          .verdict = verdict};
}

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CODEC_BLOCK_CUH_
