#ifndef STRATA_KERNELS_FAKE_CUDA_BUILTINS_H_
#define STRATA_KERNELS_FAKE_CUDA_BUILTINS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "kernels/fake_cuda/execution.h"

// CUDA's built-in functions, as far as our kernels use them.

inline void __syncthreads() { ::fake_cuda::BlockBarrier(); }
inline void __syncwarp() { ::fake_cuda::WarpBarrier(); }
inline void __threadfence() {}

namespace fake_cuda {
inline unsigned Lane() { return threadIdx.x % kWarp; }
template <typename T>
T FromLane(T value, unsigned lane) {
  static_assert(sizeof(T) <= 8);
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = WarpExchange(word)[lane];
  std::memcpy(&value, &word, sizeof value);
  return value;
}
}  // namespace fake_cuda

template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return fake_cuda::FromLane(value, lane % 32);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return fake_cuda::FromLane(value, fake_cuda::Lane() ^ mask);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned by) {
  const unsigned lane = fake_cuda::Lane();
  return fake_cuda::FromLane(value, lane < by ? lane : lane - by);
}
template <typename T>
T __shfl_down_sync(unsigned, T value, unsigned by) {
  const unsigned lane = fake_cuda::Lane();
  return fake_cuda::FromLane(value, lane + by > 31 ? lane : lane + by);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const auto& words = fake_cuda::WarpExchange(vote ? 1 : 0);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= static_cast<unsigned>(words[lane]) << lane;
  return votes;
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == 0xffffffff; }

inline unsigned __reduce_add_sync(unsigned, unsigned value) {
  const auto& words = fake_cuda::WarpExchange(value);
  return static_cast<unsigned>(std::accumulate(words.begin(), words.end(), uint64_t{0}));
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  const auto& words = fake_cuda::WarpExchange(value);
  return static_cast<unsigned>(*std::max_element(words.begin(), words.end()));
}

// Blocks run one after another, and a fiber runs until it waits, so this is atomic.
template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, *at + value);
}
template <typename T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, value < *at ? value : *at);
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, *at < value ? value : *at);
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline int __float2int_rn(float a) { return static_cast<int>(std::nearbyint(a)); }
template <typename T>
T __ldg(const T* at) {
  return *at;
}
template <typename T>
T __ldcs(const T* at) {
  return *at;
}
template <typename T>
void __stcs(T* at, T value) {
  *at = value;
}
template <typename T>
void __stcg(T* at, T value) {
  *at = value;
}

#endif  // STRATA_KERNELS_FAKE_CUDA_BUILTINS_H_
