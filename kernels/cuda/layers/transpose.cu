#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/values.cuh"

namespace strata::cuda {
namespace {

template <typename From, typename To, unsigned V>
__global__ void __launch_bounds__(kThreads) ConvertKernel(const From* in, To* out, size_t n) {
  for (size_t i = FirstItem(); i < n / V; i += ItemStride()) {
    const Pack<From, V> from = Load<V>(in + i * V);
    Pack<To, V> to;
#pragma unroll
    for (unsigned j = 0; j < V; ++j) Set(to.at[j], ToFloat(from.at[j]));
    Store(out + i * V, to);
  }
  for (size_t i = n / V * V + FirstItem(); i < n; i += ItemStride()) Set(out[i], ToFloat(in[i]));
}

// If one side is short: output by output; other threads of the warp read the inputs' neighbours at
// the same time or soon after, from the cache.
template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    GatherKernel(const From* in, To* out, unsigned rows, unsigned columns, size_t n) {
  const size_t matrix = static_cast<size_t>(rows) * columns;
  for (size_t i = FirstItem(); i < n; i += ItemStride()) {
    const size_t within = i % matrix;
    const size_t from = i - within + within % rows * columns + within / rows;
    Set(out[i], ToFloat(in[from]));
  }
}

constexpr unsigned kTile = 32;

// Tile by tile through shared memory, whose rows are a word longer so that columns lie in as many
// banks.
template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    TileKernel(const From* in, To* out, unsigned rows, unsigned columns, size_t count) {
  __shared__ float tile[kTile][kTile + 1];
  const unsigned lane = threadIdx.x % kTile, line = threadIdx.x / kTile;
  const unsigned down = (rows + kTile - 1) / kTile, across = (columns + kTile - 1) / kTile;
  for (size_t t = blockIdx.x; t < count * down * across; t += gridDim.x) {
    const size_t matrix = t / (static_cast<size_t>(down) * across) * rows * columns;
    const unsigned top = static_cast<unsigned>(t / across % down) * kTile;
    const unsigned left = static_cast<unsigned>(t % across) * kTile;
    for (unsigned i = line; i < kTile; i += kThreads / kTile) {
      if (top + i < rows && left + lane < columns) {
        tile[i][lane] = ToFloat(in[matrix + static_cast<size_t>(top + i) * columns + left + lane]);
      }
    }
    __syncthreads();
    for (unsigned i = line; i < kTile; i += kThreads / kTile) {
      if (left + i < columns && top + lane < rows) {
        Set(out[matrix + static_cast<size_t>(left + i) * rows + top + lane], tile[lane][i]);
      }
    }
    __syncthreads();
  }
}

template <typename From, typename To>
absl::Status Launch(CudaStream& stream, const void* in, void* out, size_t count, size_t rows,
                    size_t columns) {
  constexpr size_t kShort = 16;
  const auto* const from = static_cast<const From*>(in);
  auto* const to = static_cast<To*>(out);
  const size_t n = count * rows * columns;
  if (rows == 1 || columns == 1) {
    // Weights lie at multiples of 4 bytes.
    const bool packs = IsAligned(in) && IsAligned(out);
    return stream.Launch("convert", BlocksForAll(n / (packs ? 4 : 1) + 1), ThreadsOfBlock(),
                         packs ? &ConvertKernel<From, To, 4> : &ConvertKernel<From, To, 1>, from,
                         to, n);
  }
  if (rows <= kShort || columns <= kShort) {
    return stream.Launch("transpose", BlocksForAll(n), ThreadsOfBlock(), &GatherKernel<From, To>,
                         from, to, static_cast<unsigned>(rows), static_cast<unsigned>(columns), n);
  }
  const size_t tiles = count * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  return stream.Launch("transpose", BlocksFor(stream, tiles * kThreads), ThreadsOfBlock(),
                       &TileKernel<From, To>, from, to, static_cast<unsigned>(rows),
                       static_cast<unsigned>(columns), count);
}

}  // namespace

absl::Status Transpose(device::Stream& stream, device::Element from, const void* in,
                       device::Element to, void* out, size_t count, size_t rows, size_t columns) {
  const size_t n = count * rows * columns;
  if (n == 0) return absl::OkStatus();
  if (from == to && (rows == 1 || columns == 1)) {
    return stream.Copy(out, in, n * device::ElementBytes(from));
  }
  CudaStream& cuda = Cast(stream);
  constexpr device::Element kBFloat16 = device::Element::kBFloat16;
  if (from == kBFloat16) {
    return to == kBFloat16 ? Launch<BFloat16, BFloat16>(cuda, in, out, count, rows, columns)
                           : Launch<BFloat16, float>(cuda, in, out, count, rows, columns);
  }
  return to == kBFloat16 ? Launch<float, BFloat16>(cuda, in, out, count, rows, columns)
                         : Launch<float, float>(cuda, in, out, count, rows, columns);
}

}  // namespace strata::cuda
