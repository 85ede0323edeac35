#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/values.cuh"

namespace strata::cuda {
namespace {

template <typename T, unsigned V>
__global__ void __launch_bounds__(kThreads, kRowBlocksPerMultiprocessor)
    AddBiasKernel(T* values, const float* bias, bool relu, size_t rows, unsigned channels,
                  unsigned lanes) {
  const unsigned channel = ChannelOf<V>(lanes);
  float of_channel[V] = {};
  if (channel < channels) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) of_channel[j] = bias[channel + j];
  }
  const auto load = [&](size_t at) { return Load<V>(values + at); };
  ForEachRow<V, 4>(rows, channels, lanes, load, [&](size_t at, Pack<T, V> pack) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      const float sum = ToFloat(pack.at[j]) + of_channel[j];
      Set(pack.at[j], relu && sum <= 0 ? 0.0f : sum);
    }
    Store(values + at, pack);
  });
}

template <typename T, unsigned V>
__global__ void __launch_bounds__(kThreads, kRowBlocksPerMultiprocessor)
    SumRowsKernel(const T* values, float* partial, size_t rows, unsigned channels, unsigned lanes) {
  float sums[1][V] = {};
  const auto load = [&](size_t at) { return Load<V>(values + at); };
  ForEachRow<V, 4>(rows, channels, lanes, load, [&](size_t, const Pack<T, V>& pack) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) sums[0][j] += ToFloat(pack.at[j]);
  });
  SumBlock(sums, channels, lanes, partial);
}

__global__ void __launch_bounds__(kThreads)
    TotalRowsKernel(const float* partial, unsigned blocks, unsigned channels, float* sums) {
  double totals[1];
  if (Totals(partial, blocks, channels, totals)) {
    sums[ChannelOfTotals()] = static_cast<float>(totals[0]);
  }
}

}  // namespace

absl::Status AddBias(device::Stream& stream, const device::RowsShape& shape, const float* bias,
                     bool relu, void* values) {
  return ForElement(
      shape.element, DividesIntoPacks(shape.element, shape.channels), [&](auto t, auto width) {
        using T = decltype(t);
        constexpr unsigned V = decltype(width)::kWidth;
        const RowGrid grid = RowGridFor(Cast(stream), shape.rows, shape.channels, V);
        return Cast(stream).Launch("add_bias", grid.blocks, ThreadsOfBlock(), &AddBiasKernel<T, V>,
                                   static_cast<T*>(values), bias, relu, shape.rows, shape.channels,
                                   grid.lanes);
      });
}

absl::Status SumRows(device::Stream& stream, const device::RowsShape& shape, const void* values,
                     float* sums, float* work) {
  unsigned blocks = 0;
  const absl::Status status = ForElement(
      shape.element, DividesIntoPacks(shape.element, shape.channels), [&](auto t, auto width) {
        using T = decltype(t);
        constexpr unsigned V = decltype(width)::kWidth;
        const RowGrid grid = RowGridFor(Cast(stream), shape.rows, shape.channels, V);
        blocks = grid.blocks.y;
        return Cast(stream).Launch("sum_rows", grid.blocks, ThreadsOfBlock(), &SumRowsKernel<T, V>,
                                   static_cast<const T*>(values), work, shape.rows, shape.channels,
                                   grid.lanes);
      });
  if (!status.ok()) return status;
  return Cast(stream).Launch("total_rows", BlocksOfTotals(shape.channels), ThreadsOfBlock(),
                             &TotalRowsKernel, work, blocks, shape.channels, sums);
}

}  // namespace strata::cuda
