#ifndef STRATA_KERNELS_FAKE_CUDA_EXECUTION_H_
#define STRATA_KERNELS_FAKE_CUDA_EXECUTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

// CUDA's language, as far as our kernels use it, in plain C++: each thread of a block is a fiber of
// one host thread, so barriers and warp exchanges work; blocks run one after another.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
// State of the host thread that runs the block: what all its fibers share.
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
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace fake_cuda {

// The position in the grid of the fiber that runs.
struct GridPosition {
  uint3 thread, block;
  dim3 threads, blocks;
};
GridPosition& CurrentPosition();

void BlockBarrier();
void WarpBarrier();
// Each of 32 lanes gives a word and gets all of them. Every lane of the warp calls it.
const std::array<uint64_t, 32>& WarpExchange(uint64_t mine);

constexpr unsigned kWarp = 32;

// A kernel's arguments, word by word, and a function that calls it with them.
struct Arguments {
  std::vector<uint64_t> words;
  std::function<void(const std::vector<uint64_t>&)> call;
};

// Calls body once per thread of every block. Returns false on deadlock.
bool RunGrid(dim3 blocks, dim3 threads, const std::function<void()>& body);

template <typename... Expected>
Arguments Bind(void (*kernel)(Expected...), std::type_identity_t<Expected>... actual) {
  using Tuple = std::tuple<std::decay_t<Expected>...>;
  static_assert((std::is_trivially_copyable_v<std::decay_t<Expected>> && ...));
  static_assert(alignof(Tuple) <= alignof(std::max_align_t));
  const Tuple values(actual...);
  Arguments arguments;
  arguments.words.resize((sizeof(Tuple) + 7) / 8);
  // One by one and without padding, so that padding is not mistaken for an address.
  const auto copy = [&](auto value, const auto& original) {
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&value);
#endif
    const auto at = reinterpret_cast<uintptr_t>(&original) - reinterpret_cast<uintptr_t>(&values);
    std::memcpy(reinterpret_cast<std::byte*>(arguments.words.data()) + at, &value, sizeof value);
  };
  std::apply([&](const auto&... value) { (copy(value, value), ...); }, values);
  arguments.call = [kernel](const std::vector<uint64_t>& words) {
    alignas(Tuple) std::byte room[sizeof(Tuple)];
    std::memcpy(room, words.data(), sizeof(Tuple));
    std::apply(kernel, *reinterpret_cast<Tuple*>(room));
  };
  return arguments;
}

}  // namespace fake_cuda

namespace fake_cuda {
// A number that depends on the position of the fiber that reads it.
template <auto kOf, auto kNumber>
struct Here {
  operator unsigned() const { return CurrentPosition().*kOf.*kNumber; }
};
template <auto kOf, typename Numbers>
struct Here3 {
  Here<kOf, &Numbers::x> x;
  Here<kOf, &Numbers::y> y;
  Here<kOf, &Numbers::z> z;
};
}  // namespace fake_cuda

inline constexpr fake_cuda::Here3<&fake_cuda::GridPosition::thread, uint3> threadIdx;
inline constexpr fake_cuda::Here3<&fake_cuda::GridPosition::block, uint3> blockIdx;
inline constexpr fake_cuda::Here3<&fake_cuda::GridPosition::threads, dim3> blockDim;
inline constexpr fake_cuda::Here3<&fake_cuda::GridPosition::blocks, dim3> gridDim;

#endif  // STRATA_KERNELS_FAKE_CUDA_EXECUTION_H_
