#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/values.cuh"

namespace strata::cuda {
namespace {

// Calls each(index of the first, constant V) for packs of n elements, and for those behind them.
template <unsigned V, typename Each>
__device__ __forceinline__ void ForEachPack(size_t n, Each each) {
  const size_t packs = n / V;
  for (size_t i = FirstItem(); i < packs; i += ItemStride()) each(i * V, Width<V>());
  for (size_t i = packs * V + FirstItem(); i < n; i += ItemStride()) each(i, Width<1>());
}

template <typename T>
__global__ void __launch_bounds__(kThreads) ReluKernel(const T* in, T* out, size_t n) {
  ForEachPack<kPack<T>>(n, [&](size_t at, auto width) {
    constexpr unsigned V = decltype(width)::kWidth;
    Pack<T, V> pack = Load<V>(in + at);
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      if (ToFloat(pack.at[j]) <= 0) Set(pack.at[j], 0.0f);
    }
    Store(out + at, pack);
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ReluBackwardKernel(const T* output, T* gradient, size_t n) {
  ForEachPack<kPack<T>>(n, [&](size_t at, auto width) {
    constexpr unsigned V = decltype(width)::kWidth;
    const Pack<T, V> value = Load<V>(output + at);
    Pack<T, V> pack = Load<V>(gradient + at);
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      if (!(ToFloat(value.at[j]) > 0)) Set(pack.at[j], 0.0f);
    }
    Store(gradient + at, pack);
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    AddKernel(const T* a, const T* b, bool relu, T* out, size_t n) {
  ForEachPack<kPack<T>>(n, [&](size_t at, auto width) {
    constexpr unsigned V = decltype(width)::kWidth;
    Pack<T, V> pack = Load<V>(a + at);
    const Pack<T, V> other = Load<V>(b + at);
#pragma unroll
    for (unsigned j = 0; j < V; ++j) {
      const float sum = ToFloat(pack.at[j]) + ToFloat(other.at[j]);
      Set(pack.at[j], relu && sum <= 0 ? 0.0f : sum);
    }
    Store(out + at, pack);
  });
}

// common/random.h, for the device.
__device__ __forceinline__ float RandomUniform(uint64_t key, uint64_t counter) {
  uint64_t x = key + counter * 0xd1342543de82ef95u;
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<float>(static_cast<unsigned>(x >> 40)) * 0x1p-24f;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(device::DropoutPass pass, float factor, const T* in, T* out, size_t n) {
  for (size_t i = FirstItem(); i < n; i += ItemStride()) {
    const unsigned channel = static_cast<unsigned>(i % pass.channels);
    const size_t row = i / pass.channels;
    const unsigned place = static_cast<unsigned>(row % pass.places);
    const uint64_t sample = row / pass.places;
    const uint64_t counter = (sample * pass.channels + channel) * pass.places + place;
    const bool drops = RandomUniform(pass.key, counter) < pass.rate;
    Set(out[i], drops ? 0.0f : ToFloat(in[i]) * factor);
  }
}

template <typename T, unsigned V>
__global__ void __launch_bounds__(kThreads)
    CopyChannelsKernel(size_t rows, unsigned count, device::ChannelSlice from, const T* in,
                       device::ChannelSlice to, T* out) {
  const unsigned packs = count / V;
  for (size_t i = FirstItem(); i < rows * packs; i += ItemStride()) {
    const size_t row = i / packs;
    const unsigned channel = static_cast<unsigned>(i % packs) * V;
    Store(out + row * to.channels + to.first + channel,
          Load<V>(in + row * from.channels + from.first + channel));
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    AddShortcutKernel(device::ShortcutShape shape, const T* values, const T* from, T* out,
                      size_t n) {
  for (size_t i = FirstItem(); i < n; i += ItemStride()) {
    const unsigned channel = static_cast<unsigned>(i % shape.channels);
    float value = ToFloat(values[i]);
    if (channel < shape.from_channels) {
      const size_t place = i / shape.channels;
      const size_t x = place % shape.width * shape.stride;
      const size_t y = place / shape.width % shape.height * shape.stride;
      const size_t sample = place / shape.width / shape.height;
      value += ToFloat(
          from[((sample * shape.from_height + y) * shape.from_width + x) * shape.from_channels +
               channel]);
    }
    Set(out[i], value);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ShortcutBackwardKernel(device::ShortcutShape shape, const T* gradient, T* out, size_t n) {
  for (size_t i = FirstItem(); i < n; i += ItemStride()) {
    const unsigned channel = static_cast<unsigned>(i % shape.from_channels);
    const size_t place = i / shape.from_channels;
    const size_t x = place % shape.from_width, y = place / shape.from_width % shape.from_height;
    const size_t sample = place / shape.from_width / shape.from_height;
    float value = 0;
    if (x % shape.stride == 0 && y % shape.stride == 0) {
      value = ToFloat(
          gradient[((sample * shape.height + y / shape.stride) * shape.width + x / shape.stride) *
                       shape.channels +
                   channel]);
    }
    Set(out[i], value);
  }
}

__global__ void __launch_bounds__(kThreads)
    ScaleKernel(const float* in, float factor, float* out, size_t n) {
  for (size_t i = FirstItem(); i < n; i += ItemStride()) out[i] = factor * in[i];
}

// Calls call(T()) for elements of this kind.
template <typename Call>
absl::Status For(device::Element element, Call call) {
  return element == device::Element::kBFloat16 ? call(BFloat16()) : call(float());
}

template <typename... Expected, typename... Actual>
absl::Status Over(device::Stream& stream, const char* name, size_t items,
                  void (*kernel)(Expected...), Actual... actual) {
  if (items == 0) return absl::OkStatus();
  return Cast(stream).Launch(name, BlocksForAll(items), ThreadsOfBlock(), kernel, actual...);
}

}  // namespace

absl::Status Relu(device::Stream& stream, device::Element element, const void* in, void* out,
                  size_t n) {
  return For(element, [&](auto t) {
    using T = decltype(t);
    return Over(stream, "relu", n / kPack<T> + 1, &ReluKernel<T>, static_cast<const T*>(in),
                static_cast<T*>(out), n);
  });
}

absl::Status ReluBackward(device::Stream& stream, device::Element element, const void* output,
                          void* gradient, size_t n) {
  return For(element, [&](auto t) {
    using T = decltype(t);
    return Over(stream, "relu_backward", n / kPack<T> + 1, &ReluBackwardKernel<T>,
                static_cast<const T*>(output), static_cast<T*>(gradient), n);
  });
}

absl::Status Add(device::Stream& stream, device::Element element, const void* a, const void* b,
                 bool relu, void* out, size_t n) {
  return For(element, [&](auto t) {
    using T = decltype(t);
    return Over(stream, "add", n / kPack<T> + 1, &AddKernel<T>, static_cast<const T*>(a),
                static_cast<const T*>(b), relu, static_cast<T*>(out), n);
  });
}

absl::Status Dropout(device::Stream& stream, const device::DropoutPass& pass, const void* in,
                     void* out) {
  const size_t n = size_t{pass.batch} * pass.channels * pass.places;
  return For(pass.element, [&](auto t) {
    using T = decltype(t);
    return Over(stream, "dropout", n, &DropoutKernel<T>, pass, 1.0f / (1.0f - pass.rate),
                static_cast<const T*>(in), static_cast<T*>(out), n);
  });
}

absl::Status CopyChannels(device::Stream& stream, device::Element element, size_t rows,
                          uint32_t count, device::ChannelSlice from, const void* in,
                          device::ChannelSlice to, void* out) {
  bool packs = true;
  for (uint32_t number : {count, from.channels, from.first, to.channels, to.first}) {
    packs = packs && DividesIntoPacks(element, number);
  }
  return ForElement(element, packs, [&](auto t, auto width) {
    using T = decltype(t);
    constexpr unsigned V = decltype(width)::kWidth;
    return Over(stream, "copy_channels", rows * (count / V), &CopyChannelsKernel<T, V>, rows, count,
                from, static_cast<const T*>(in), to, static_cast<T*>(out));
  });
}

absl::Status AddShortcut(device::Stream& stream, const device::ShortcutShape& shape,
                         const void* values, const void* from, void* out) {
  const size_t n = size_t{shape.batch} * shape.height * shape.width * shape.channels;
  return For(shape.element, [&](auto t) {
    using T = decltype(t);
    return Over(stream, "add_shortcut", n, &AddShortcutKernel<T>, shape,
                static_cast<const T*>(values), static_cast<const T*>(from), static_cast<T*>(out),
                n);
  });
}

absl::Status ShortcutBackward(device::Stream& stream, const device::ShortcutShape& shape,
                              const void* gradient, void* from_gradient) {
  const size_t n = size_t{shape.batch} * shape.from_height * shape.from_width * shape.from_channels;
  return For(shape.element, [&](auto t) {
    using T = decltype(t);
    return Over(stream, "shortcut_backward", n, &ShortcutBackwardKernel<T>, shape,
                static_cast<const T*>(gradient), static_cast<T*>(from_gradient), n);
  });
}

absl::Status Scale(device::Stream& stream, const float* in, float factor, float* out, size_t n) {
  return Over(stream, "scale", n, &ScaleKernel, in, factor, out, n);
}

}  // namespace strata::cuda
