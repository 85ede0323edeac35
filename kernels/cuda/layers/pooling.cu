// One thread for V channels of an output or, backward, of an input, which gathers from the windows
// that contain it: no atomics, and always the same order of addition.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/values.cuh"

namespace strata::cuda {
namespace {

struct Windows {
  unsigned channels, height, width, out_height, out_width;
  unsigned kernel_height, kernel_width, stride, padding;
  size_t rows;  // that the grid goes over, of all samples
};

// The place of a row among `height` x `width` places a sample.
struct PlaceOfRow {
  size_t sample;
  int y, x;
};
__device__ __forceinline__ PlaceOfRow Find(size_t row, unsigned height, unsigned width) {
  const size_t line = row / width;
  return {line / height, static_cast<int>(line % height), static_cast<int>(row % width)};
}

// Calls each(index of the input's first channel, number in the window) for the elements of an
// output's window outside of the padding.
template <typename Each>
__device__ __forceinline__ void ForEachOfWindow(const Windows& w, const PlaceOfRow& out,
                                                unsigned channel, Each each) {
  const int top = out.y * static_cast<int>(w.stride) - static_cast<int>(w.padding);
  const int left = out.x * static_cast<int>(w.stride) - static_cast<int>(w.padding);
  for (unsigned i = 0; i < w.kernel_height; ++i) {
    const int y = top + static_cast<int>(i);
    if (y < 0 || y >= static_cast<int>(w.height)) continue;
    for (unsigned j = 0; j < w.kernel_width; ++j) {
      const int x = left + static_cast<int>(j);
      if (x < 0 || x >= static_cast<int>(w.width)) continue;
      each(((out.sample * w.height + y) * w.width + x) * w.channels + channel,
           i * w.kernel_width + j);
    }
  }
}

// Calls each(index of the output's first channel, number of the input in its window).
template <typename Each>
__device__ __forceinline__ void ForEachWindowAround(const Windows& w, const PlaceOfRow& in,
                                                    unsigned channel, Each each) {
  const int y = in.y + static_cast<int>(w.padding), x = in.x + static_cast<int>(w.padding);
  const int stride = static_cast<int>(w.stride);
  const int kernel_height = static_cast<int>(w.kernel_height);
  const int kernel_width = static_cast<int>(w.kernel_width);
  const int first_y = y < kernel_height ? 0 : (y - kernel_height) / stride + 1;
  const int first_x = x < kernel_width ? 0 : (x - kernel_width) / stride + 1;
  for (int i = first_y; i <= y / stride && i < static_cast<int>(w.out_height); ++i) {
    for (int j = first_x; j <= x / stride && j < static_cast<int>(w.out_width); ++j) {
      each(((in.sample * w.out_height + i) * w.out_width + j) * w.channels + channel,
           static_cast<unsigned>((y - i * stride) * kernel_width + x - j * stride));
    }
  }
}

// Calls each(row, first channel) for the thread's packs.
template <unsigned V, typename Each>
__device__ __forceinline__ void ForEachPackOfRows(const Windows& w, Each each) {
  const unsigned packs = w.channels / V;
  for (size_t i = FirstItem(); i < w.rows * packs; i += ItemStride()) {
    each(i / packs, static_cast<unsigned>(i % packs) * V);
  }
}

template <typename T, unsigned V>
__global__ void __launch_bounds__(kThreads)
    MaxPoolKernel(Windows w, const T* in, T* out, uint8_t* winners) {
  ForEachPackOfRows<V>(w, [&](size_t row, unsigned channel) {
    Pack<T, V> best = {};
    Pack<uint8_t, V> best_at = {};
    bool first = true;
    ForEachOfWindow(w, Find(row, w.out_height, w.out_width), channel, [&](size_t at, unsigned nth) {
      const Pack<T, V> pack = Load<V>(in + at);
#pragma unroll
      for (unsigned j = 0; j < V; ++j) {
        // The first of equal ones wins; NaN wins over everything.
        if (first || !(ToFloat(pack.at[j]) <= ToFloat(best.at[j]))) {
          best.at[j] = pack.at[j];
          best_at.at[j] = static_cast<uint8_t>(nth);
        }
      }
      first = false;
    });
    Store(out + row * w.channels + channel, best);
    if (winners != nullptr) Store(winners + row * w.channels + channel, best_at);
  });
}

template <typename T, unsigned V>
__global__ void __launch_bounds__(kThreads)
    MaxPoolBackwardKernel(Windows w, const T* gradient, const uint8_t* winners, T* out) {
  ForEachPackOfRows<V>(w, [&](size_t row, unsigned channel) {
    float sums[V] = {};
    ForEachWindowAround(w, Find(row, w.height, w.width), channel, [&](size_t at, unsigned nth) {
      const Pack<T, V> pack = Load<V>(gradient + at);
      const Pack<uint8_t, V> winner = Load<V>(winners + at);
#pragma unroll
      for (unsigned j = 0; j < V; ++j) {
        if (winner.at[j] == nth) sums[j] += ToFloat(pack.at[j]);
      }
    });
    Pack<T, V> pack;
#pragma unroll
    for (unsigned j = 0; j < V; ++j) Set(pack.at[j], sums[j]);
    Store(out + row * w.channels + channel, pack);
  });
}

// Means of windows, or, backward, sums of gradients of windows, both times `factor`.
template <typename T, unsigned V, bool kBackward>
__global__ void __launch_bounds__(kThreads)
    AveragePoolKernel(Windows w, const T* in, T* out, float factor) {
  ForEachPackOfRows<V>(w, [&](size_t row, unsigned channel) {
    float sums[V] = {};
    const auto add = [&](size_t at, unsigned) {
      const Pack<T, V> pack = Load<V>(in + at);
#pragma unroll
      for (unsigned j = 0; j < V; ++j) sums[j] += ToFloat(pack.at[j]);
    };
    if constexpr (kBackward) {
      ForEachWindowAround(w, Find(row, w.height, w.width), channel, add);
    } else {
      ForEachOfWindow(w, Find(row, w.out_height, w.out_width), channel, add);
    }
    Pack<T, V> pack;
#pragma unroll
    for (unsigned j = 0; j < V; ++j) Set(pack.at[j], sums[j] * factor);
    Store(out + row * w.channels + channel, pack);
  });
}

Windows WindowsOf(const device::WindowShape& shape, bool backward) {
  const uint32_t height = backward ? shape.height : shape.output_height();
  const uint32_t width = backward ? shape.width : shape.output_width();
  return {shape.channels,       shape.height,
          shape.width,          shape.output_height(),
          shape.output_width(), shape.kernel_height,
          shape.kernel_width,   shape.stride,
          shape.padding,        size_t{shape.batch} * height * width};
}

// Calls launch(T(), constant V, windows, blocks).
template <typename LaunchOf>
absl::Status ForWindows(device::Stream& stream, const device::WindowShape& shape, bool backward,
                        LaunchOf launch) {
  return ForElement(
      shape.element, DividesIntoPacks(shape.element, shape.channels), [&](auto t, auto width) {
        const Windows windows = WindowsOf(shape, backward);
        const size_t packs = windows.rows * (shape.channels / decltype(width)::kWidth);
        return launch(t, width, windows, BlocksFor(Cast(stream), packs));
      });
}

absl::Status CheckWinners(const device::WindowShape& shape) {
  if (shape.kernel_height * shape.kernel_width <= device::kWindowElementsMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("max pooling over ", shape.kernel_height, " x ",
                                                 shape.kernel_width, " elements; at most ",
                                                 device::kWindowElementsMax, " on devices"));
}

template <bool kBackward>
absl::Status Average(device::Stream& stream, const device::WindowShape& shape, const void* in,
                     void* out) {
  const float factor = 1.0f / static_cast<float>(shape.kernel_height * shape.kernel_width);
  return ForWindows(
      stream, shape, kBackward, [&](auto t, auto width, const Windows& windows, dim3 blocks) {
        using T = decltype(t);
        constexpr unsigned V = decltype(width)::kWidth;
        return Cast(stream).Launch("average_pool", blocks, ThreadsOfBlock(),
                                   &AveragePoolKernel<T, V, kBackward>, windows,
                                   static_cast<const T*>(in), static_cast<T*>(out), factor);
      });
}

}  // namespace

absl::Status MaxPool(device::Stream& stream, const device::WindowShape& shape, const void* in,
                     void* out, uint8_t* winners) {
  if (absl::Status status = CheckWinners(shape); !status.ok()) return status;
  return ForWindows(stream, shape, /*backward=*/false,
                    [&](auto t, auto width, const Windows& windows, dim3 blocks) {
                      using T = decltype(t);
                      constexpr unsigned V = decltype(width)::kWidth;
                      return Cast(stream).Launch(
                          "max_pool", blocks, ThreadsOfBlock(), &MaxPoolKernel<T, V>, windows,
                          static_cast<const T*>(in), static_cast<T*>(out), winners);
                    });
}

absl::Status MaxPoolBackward(device::Stream& stream, const device::WindowShape& shape,
                             const void* gradient, const uint8_t* winners, void* in_gradient) {
  return ForWindows(stream, shape, /*backward=*/true,
                    [&](auto t, auto width, const Windows& windows, dim3 blocks) {
                      using T = decltype(t);
                      constexpr unsigned V = decltype(width)::kWidth;
                      return Cast(stream).Launch("max_pool_backward", blocks, ThreadsOfBlock(),
                                                 &MaxPoolBackwardKernel<T, V>, windows,
                                                 static_cast<const T*>(gradient), winners,
                                                 static_cast<T*>(in_gradient));
                    });
}

absl::Status AveragePool(device::Stream& stream, const device::WindowShape& shape, const void* in,
                         void* out) {
  return Average<false>(stream, shape, in, out);
}

absl::Status AveragePoolBackward(device::Stream& stream, const device::WindowShape& shape,
                                 const void* gradient, void* in_gradient) {
  return Average<true>(stream, shape, gradient, in_gradient);
}

}  // namespace strata::cuda
