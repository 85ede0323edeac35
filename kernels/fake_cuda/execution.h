#ifndef STRATA_KERNELS_FAKE_CUDA_EXECUTION_H_
#define STRATA_KERNELS_FAKE_CUDA_EXECUTION_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// CUDA's language, as far as our kernels use it, in plain C++: each thread of a block is a fiber of
// one host thread, so barriers and warps' exchanges work; blocks come one after another.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
// Of the host thread that runs the block: what all its fibers share.
#define __shared__ static thread_local

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace fake_cuda {

// Where the fiber that runs is.
struct Place {
  uint3 thread, block;
  dim3 threads, blocks;
};
Place& CurrentPlace();

void BlockBarrier();
void WarpBarrier();
// All 32 lanes give a word and see each other's. REQUIRES: every lane of the warp calls it.
const std::array<uint64_t, 32>& WarpExchange(uint64_t mine);

constexpr unsigned kWarp = 32;

// A kernel's arguments, word by word, and what calls it with them.
struct Arguments {
  std::vector<uint64_t> words;
  std::function<void(const std::vector<uint64_t>&)> call;
};

// Calls body once per thread of every block. False if threads wait for each other for ever.
bool RunGrid(dim3 blocks, dim3 threads, const std::function<void()>& body);

template <typename... Expected>
Arguments Bind(void (*kernel)(Expected...), std::type_identity_t<Expected>... actual) {
  using Tuple = std::tuple<std::decay_t<Expected>...>;
  static_assert((std::is_trivially_copyable_v<std::decay_t<Expected>> && ...));
  static_assert(alignof(Tuple) <= alignof(std::max_align_t));
  Tuple values(actual...);
  Arguments arguments;
  arguments.words.resize((sizeof(Tuple) + 7) / 8);
  // One by one: what lies between them is no argument.
  const auto copy = [&](const auto& value) {
    const auto at = reinterpret_cast<uintptr_t>(&value) - reinterpret_cast<uintptr_t>(&values);
    std::memcpy(reinterpret_cast<std::byte*>(arguments.words.data()) + at, &value, sizeof value);
  };
  std::apply([&](const auto&... value) { (copy(value), ...); }, values);
  arguments.call = [kernel](const std::vector<uint64_t>& words) {
    alignas(Tuple) std::byte room[sizeof(Tuple)];
    std::memcpy(room, words.data(), sizeof(Tuple));
    std::apply(kernel, *reinterpret_cast<Tuple*>(room));
  };
  return arguments;
}

}  // namespace fake_cuda

namespace fake_cuda {
// A number of the place where the fiber is when it looks.
template <auto kOf, auto kNumber>
struct Here {
  operator unsigned() const { return CurrentPlace().*kOf.*kNumber; }
};
template <auto kOf, typename Numbers>
struct Here3 {
  Here<kOf, &Numbers::x> x;
  Here<kOf, &Numbers::y> y;
  Here<kOf, &Numbers::z> z;
};
}  // namespace fake_cuda

inline constexpr fake_cuda::Here3<&fake_cuda::Place::thread, uint3> threadIdx;
inline constexpr fake_cuda::Here3<&fake_cuda::Place::block, uint3> blockIdx;
inline constexpr fake_cuda::Here3<&fake_cuda::Place::threads, dim3> blockDim;
inline constexpr fake_cuda::Here3<&fake_cuda::Place::blocks, dim3> gridDim;

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

// Blocks come one after another, and a fiber goes on until it waits: nothing comes between.
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

#endif  // STRATA_KERNELS_FAKE_CUDA_EXECUTION_H_
