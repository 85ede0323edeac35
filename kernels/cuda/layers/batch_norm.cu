// Training takes three passes of the memory: the sums of (x - s) and (x - s)^2 per channel, where s
// is the channel's value in the first row, so that nothing cancels where the mean is far from zero;
// one thread per channel that makes mean, deviation and factors of them; and x * scale + shift with
// what follows. Backward: sums of g and g * (x - mean) / deviation, then
//   dx = weight / deviation * (g - sum(g) / n - x^ * sum(g x^) / n), x^ = (x - mean) / deviation.
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/values.cuh"

namespace strata::cuda {
namespace {

// The vectors in `saved`, each for all channels.
enum { kMean, kInverse, kScale, kShift };

template <typename T, unsigned V>
__global__ void __launch_bounds__(kThreads, kRowBlocksPerMultiprocessor)
    StatisticsKernel(const T* x, float* partial, size_t rows, unsigned channels, unsigned lanes) {
  const unsigned channel = ChannelOf<V>(lanes);
  float sums[2][V] = {}, first[V] = {};
  if (channel < channels) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) first[j] = ToFloat(x[channel + j]);
  }
  const auto load = [&](size_t at) { return Load<V>(x + at); };
  ForEachRow<V, 4>(rows, channels, lanes, load, [&](size_t, const Pack<T, V>& pack) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      const float d = ToFloat(pack.at[j]) - first[j];
      sums[0][j] += d;
      sums[1][j] += d * d;
    }
  });
  SumBlock(sums, channels, lanes, partial);
}

struct Channels {
  unsigned count;
  float epsilon, momentum;
  const float *weight, *bias;
  float *running_mean, *running_variance, *saved;
};

__device__ __forceinline__ void Save(const Channels& of, unsigned channel, float mean,
                                     float variance) {
  const float inverse = __fdiv_rn(1.0f, __fsqrt_rn(variance + of.epsilon));
  const float scale = of.weight[channel] * inverse;
  of.saved[kMean * of.count + channel] = mean;
  of.saved[kInverse * of.count + channel] = inverse;
  of.saved[kScale * of.count + channel] = scale;
  of.saved[kShift * of.count + channel] = of.bias[channel] - mean * scale;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    MomentsKernel(const float* partial, unsigned blocks, const T* x, size_t rows, Channels of) {
  double totals[2];
  if (!Totals(partial, blocks, of.count, totals)) return;
  const unsigned channel = ChannelOfTotals();
  const double n = static_cast<double>(rows);
  const double from_first = totals[0] / n;
  const float mean = static_cast<float>(from_first + ToFloat(x[channel]));
  const double squares = totals[1] / n - from_first * from_first;
  // Rounding may give slightly less than zero; NaN stays.
  const float variance = squares < 0 ? 0.0f : static_cast<float>(squares);
  Save(of, channel, mean, variance);
  // The batch's variance is divided by n; its estimate of the population's by n - 1.
  const float unbiased = rows > 1 ? static_cast<float>(n / (n - 1)) : 1.0f;
  const float keep = 1.0f - of.momentum;
  of.running_mean[channel] = keep * of.running_mean[channel] + of.momentum * mean;
  of.running_variance[channel] =
      keep * of.running_variance[channel] + of.momentum * variance * unbiased;
}

__global__ void __launch_bounds__(kThreads) RunningKernel(Channels of) {
  const size_t channel = FirstItem();
  if (channel >= of.count) return;
  Save(of, static_cast<unsigned>(channel), of.running_mean[channel], of.running_variance[channel]);
}

template <typename T, unsigned V, bool kAdds>
__global__ void __launch_bounds__(kThreads, kRowBlocksPerMultiprocessor)
    NormaliseKernel(const T* x, const T* addend, T* y, const float* saved, bool relu, size_t rows,
                    unsigned channels, unsigned lanes) {
  const unsigned channel = ChannelOf<V>(lanes);
  float scale[V] = {}, shift[V] = {};
  if (channel < channels) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      scale[j] = saved[kScale * channels + channel + j];
      shift[j] = saved[kShift * channels + channel + j];
    }
  }
  struct Loaded {
    Pack<T, V> x, add;
  };
  const auto load = [&](size_t at) {
    Loaded loaded = {Load<V>(x + at), {}};
    if constexpr (kAdds) loaded.add = Load<V>(addend + at);
    return loaded;
  };
  ForEachRow<V, kAdds ? 2 : 4>(rows, channels, lanes, load, [&](size_t at, Loaded loaded) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      float value = ToFloat(loaded.x.at[j]) * scale[j] + shift[j];
      if constexpr (kAdds) value += ToFloat(loaded.add.at[j]);
      Set(loaded.x.at[j], relu && value <= 0 ? 0.0f : value);
    }
    Store(y + at, loaded.x);
  });
}

// Where the gradient becomes zero because ReLU blocked it: where the output or, if that is not
// given, its input is not above zero.
enum class Mask { kNone, kOutput, kSource };

template <typename T, unsigned V, Mask kMask>
__global__ void __launch_bounds__(kThreads, kRowBlocksPerMultiprocessor)
    GradientSumsKernel(const T* x, const T* y, T* gradient, const float* saved, float* partial,
                       size_t rows, unsigned channels, unsigned lanes) {
  const unsigned channel = ChannelOf<V>(lanes);
  float sums[2][V] = {}, mean[V] = {}, scale[V] = {}, shift[V] = {};
  if (channel < channels) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      mean[j] = saved[kMean * channels + channel + j];
      scale[j] = saved[kScale * channels + channel + j];
      shift[j] = saved[kShift * channels + channel + j];
    }
  }
  struct Loaded {
    Pack<T, V> x, g, y;
  };
  const auto load = [&](size_t at) {
    Loaded loaded = {Load<V>(x + at), Load<V>(gradient + at), {}};
    if constexpr (kMask == Mask::kOutput) loaded.y = Load<V>(y + at);
    return loaded;
  };
  ForEachRow<V, 2>(rows, channels, lanes, load, [&](size_t at, Loaded loaded) {
    Pack<T, V>& g = loaded.g;
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      const float value = ToFloat(loaded.x.at[j]);
      bool passes = true;
      if constexpr (kMask == Mask::kOutput) passes = ToFloat(loaded.y.at[j]) > 0;
      if constexpr (kMask == Mask::kSource) passes = value * scale[j] + shift[j] > 0;
      if (!passes) Set(g.at[j], 0.0f);
      sums[0][j] += ToFloat(g.at[j]);
      sums[1][j] += ToFloat(g.at[j]) * (value - mean[j]);
    }
    // The next pass computes a mask of the source again.
    if constexpr (kMask == Mask::kOutput) Store(gradient + at, g);
  });
  if (channel < channels) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) sums[1][j] *= saved[kInverse * channels + channel + j];
  }
  SumBlock(sums, channels, lanes, partial);
}

// The first 2 x channels of `partial` become the means that the next pass takes off.
__global__ void __launch_bounds__(kThreads)
    GradientTotalsKernel(float* partial, unsigned blocks, size_t rows, unsigned channels,
                         float* weight_gradient, float* bias_gradient) {
  double totals[2];
  if (!Totals(partial, blocks, channels, totals)) return;
  const unsigned channel = ChannelOfTotals();
  bias_gradient[channel] = static_cast<float>(totals[0]);
  weight_gradient[channel] = static_cast<float>(totals[1]);
  partial[channel] = static_cast<float>(totals[0] / static_cast<double>(rows));
  partial[channels + channel] = static_cast<float>(totals[1] / static_cast<double>(rows));
}

template <typename T, unsigned V, Mask kMask>
__global__ void __launch_bounds__(kThreads, kRowBlocksPerMultiprocessor)
    SourceGradientKernel(const T* x, const T* gradient, T* out, const float* saved,
                         const float* means, size_t rows, unsigned channels, unsigned lanes) {
  const unsigned channel = ChannelOf<V>(lanes);
  // slope: what x - mean takes off.
  float mean[V] = {}, slope[V] = {}, scale[V] = {}, shift[V] = {}, g_mean[V] = {};
  if (channel < channels) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      mean[j] = saved[kMean * channels + channel + j];
      slope[j] = saved[kInverse * channels + channel + j] * means[channels + channel + j];
      scale[j] = saved[kScale * channels + channel + j];
      shift[j] = saved[kShift * channels + channel + j];
      g_mean[j] = means[channel + j];
    }
  }
  struct Loaded {
    Pack<T, V> x, g;
  };
  const auto load = [&](size_t at) { return Loaded{Load<V>(x + at), Load<V>(gradient + at)}; };
  ForEachRow<V, 2>(rows, channels, lanes, load, [&](size_t at, Loaded loaded) {
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      const float value = ToFloat(loaded.x.at[j]);
      float of_output = ToFloat(loaded.g.at[j]);
      if constexpr (kMask == Mask::kSource) {
        if (!(value * scale[j] + shift[j] > 0)) of_output = 0;
      }
      Set(loaded.g.at[j], scale[j] * (of_output - g_mean[j] - (value - mean[j]) * slope[j]));
    }
    Store(out + at, loaded.g);
  });
}

Channels ChannelsOf(const device::BatchNormPass& pass) {
  return {pass.shape.channels, pass.epsilon,      pass.momentum,         pass.weight,
          pass.bias,           pass.running_mean, pass.running_variance, pass.saved};
}

template <typename T, unsigned V>
absl::Status Normalise(CudaStream& stream, const device::BatchNormPass& pass, const RowGrid& grid) {
  return stream.Launch(
      "normalise", grid.blocks, ThreadsOfBlock(),
      pass.addend != nullptr ? &NormaliseKernel<T, V, true> : &NormaliseKernel<T, V, false>,
      static_cast<const T*>(pass.source), static_cast<const T*>(pass.addend),
      static_cast<T*>(pass.output), pass.saved, pass.relu, pass.shape.rows, pass.shape.channels,
      grid.lanes);
}

template <typename T, unsigned V, Mask kMask>
absl::Status Backward(CudaStream& stream, const device::BatchNormGradient& pass) {
  const size_t rows = pass.shape.rows;
  const uint32_t channels = pass.shape.channels;
  const RowGrid grid = RowGridFor(stream, rows, channels, V);
  const T* const x = static_cast<const T*>(pass.source);
  T* const gradient = static_cast<T*>(pass.gradient);
  if (absl::Status status =
          stream.Launch("gradient_sums", grid.blocks, ThreadsOfBlock(),
                        &GradientSumsKernel<T, V, kMask>, x, static_cast<const T*>(pass.output),
                        gradient, pass.saved, pass.work, rows, channels, grid.lanes);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = stream.Launch(
          "gradient_totals", BlocksOfTotals(channels), ThreadsOfBlock(), &GradientTotalsKernel,
          pass.work, grid.blocks.y, rows, channels, pass.weight_gradient, pass.bias_gradient);
      !status.ok() || pass.source_gradient == nullptr) {
    return status;
  }
  return stream.Launch("source_gradient", grid.blocks, ThreadsOfBlock(),
                       &SourceGradientKernel<T, V, kMask>, x, gradient,
                       static_cast<T*>(pass.source_gradient), pass.saved, pass.work, rows, channels,
                       grid.lanes);
}

}  // namespace

absl::Status BatchNorm(device::Stream& stream, const device::BatchNormPass& pass) {
  const device::RowsShape& shape = pass.shape;
  return ForElement(
      shape.element, DividesIntoPacks(shape.element, shape.channels), [&](auto t, auto width) {
        using T = decltype(t);
        constexpr unsigned V = decltype(width)::kWidth;
        const RowGrid grid = RowGridFor(Cast(stream), shape.rows, shape.channels, V);
        const T* const x = static_cast<const T*>(pass.source);
        if (absl::Status status = Cast(stream).Launch("statistics", grid.blocks, ThreadsOfBlock(),
                                                      &StatisticsKernel<T, V>, x, pass.work,
                                                      shape.rows, shape.channels, grid.lanes);
            !status.ok()) {
          return status;
        }
        if (absl::Status status = Cast(stream).Launch(
                "moments", BlocksOfTotals(shape.channels), ThreadsOfBlock(), &MomentsKernel<T>,
                pass.work, grid.blocks.y, x, shape.rows, ChannelsOf(pass));
            !status.ok()) {
          return status;
        }
        return Normalise<T, V>(Cast(stream), pass, grid);
      });
}

absl::Status BatchNormInference(device::Stream& stream, const device::BatchNormPass& pass) {
  const device::RowsShape& shape = pass.shape;
  dim3 blocks;
  blocks.x = (shape.channels + kThreads - 1) / kThreads;
  const absl::Status status =
      Cast(stream).Launch("running", blocks, ThreadsOfBlock(), &RunningKernel, ChannelsOf(pass));
  if (!status.ok()) return status;
  return ForElement(shape.element, DividesIntoPacks(shape.element, shape.channels),
                    [&](auto t, auto width) {
                      constexpr unsigned V = decltype(width)::kWidth;
                      const RowGrid grid = RowGridFor(Cast(stream), shape.rows, shape.channels, V);
                      return Normalise<decltype(t), V>(Cast(stream), pass, grid);
                    });
}

absl::Status BatchNormBackward(device::Stream& stream, const device::BatchNormGradient& pass) {
  const device::RowsShape& shape = pass.shape;
  return ForElement(
      shape.element, DividesIntoPacks(shape.element, shape.channels), [&](auto t, auto width) {
        using T = decltype(t);
        constexpr unsigned V = decltype(width)::kWidth;
        if (!pass.relu) return Backward<T, V, Mask::kNone>(Cast(stream), pass);
        return pass.output != nullptr ? Backward<T, V, Mask::kOutput>(Cast(stream), pass)
                                      : Backward<T, V, Mask::kSource>(Cast(stream), pass);
      });
}

}  // namespace strata::cuda
