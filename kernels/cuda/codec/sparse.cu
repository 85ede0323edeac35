// The kernels of sparse payloads whose elements need no order.
#include "kernels/cuda/codec/codecs.h"
#include "kernels/cuda/codec/sparse.cuh"

namespace strata::cuda {
namespace {

template <unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    TallyKernel(Stored source, size_t n, Band band, uint32_t* count) {
  unsigned mine = 0;
  for (size_t i = FirstItem() * kWidth; i < n; i += ItemStride() * kWidth) {
    uint32_t bits[kWidth];
    BitsAt(source, i, n, bits);
    for (unsigned j = 0; j < kWidth; ++j) mine += band.Has(bits[j]) ? 1 : 0;
  }
  const unsigned sum = SumOverBlock(mine).of_block;
  if (threadIdx.x == 0 && sum > 0) atomicAdd(count, sum);
}

template <typename Source>
__global__ void __launch_bounds__(kThreads)
    SampleKernel(Source source, size_t stride, uint32_t* bits, size_t count) {
  for (size_t i = FirstItem(); i < count; i += ItemStride()) {
    float p[1];
    source.Take(i / kernels::kSampleRun * stride + i % kernels::kSampleRun, p);
    bits[i] = __float_as_uint(p[0]);
  }
}

__global__ void __launch_bounds__(kThreads)
    AscendKernel(const uint32_t* indices, size_t count, size_t n, device::Verdict* verdict) {
  bool good = true;
  for (size_t j = FirstItem(); j < count; j += ItemStride()) {
    const uint32_t index = indices[j];
    good = good && index < n && (j == 0 || indices[j - 1] < index);
  }
  if (!good) Worsen(verdict, device::kBad);
}

// Indices are distinct, so several elements are on their way at once.
constexpr unsigned kAtOnce = 4;
__global__ void __launch_bounds__(kThreads)
    AddKernel(const uint32_t* indices, const float* values, size_t count, float* out) {
  for (size_t first = FirstItem(); first < count; first += kAtOnce * ItemStride()) {
    float* at[kAtOnce] = {};
    float sum[kAtOnce] = {};
#pragma unroll
    for (unsigned u = 0; u < kAtOnce; ++u) {
      const size_t j = first + u * ItemStride();
      if (j >= count) continue;
      at[u] = out + indices[j];
      sum[u] = *at[u] + values[j];
    }
#pragma unroll
    for (unsigned u = 0; u < kAtOnce; ++u) {
      if (at[u] != nullptr) *at[u] = sum[u];
    }
  }
}

}  // namespace

absl::Status Count(device::Stream& stream, const uint32_t* bits, size_t n, uint32_t threshold,
                   uint32_t* count) {
  CudaStream& to = Cast(stream);
  if (absl::Status status = to.Fill(count, 0, sizeof *count); !status.ok() || n == 0) return status;
  const auto launch = [&](size_t width, auto kernel) {
    return to.Launch("count", BlocksFor(to, (n + width - 1) / width), ThreadsOfBlock(), kernel,
                     BitsOf(bits), n, From(threshold), count);
  };
  return IsAligned(bits) ? launch(4, &TallyKernel<4>) : launch(1, &TallyKernel<1>);
}

absl::Status Sample(device::Stream& stream, const float* x,
                    const kernels::Accumulators& accumulators, uint32_t* bits, size_t n) {
  const size_t count = kernels::SampleCount(n);
  if (count == 0) return absl::OkStatus();
  const size_t stride = n / (count / kernels::kSampleRun);
  CudaStream& to = Cast(stream);
  return WithSource<false>(x, accumulators, [&](auto source) {
    return to.Launch("sample", BlocksFor(to, count), ThreadsOfBlock(),
                     &SampleKernel<decltype(source)>, source, stride, bits, count);
  });
}

absl::Status IndicesAscend(device::Stream& stream, const std::byte* indices, size_t count, size_t n,
                           device::Verdict* verdict) {
  if (count == 0) return absl::OkStatus();
  CudaStream& to = Cast(stream);
  return to.Launch("check indices", BlocksFor(to, count), ThreadsOfBlock(), &AscendKernel,
                   reinterpret_cast<const uint32_t*>(indices), count, n, verdict);
}

absl::Status AddSparse(device::Stream& stream, const std::byte* indices, const std::byte* values,
                       size_t count, float* out) {
  if (count == 0) return absl::OkStatus();
  CudaStream& to = Cast(stream);
  return to.Launch("add", BlocksFor(to, (count + kAtOnce - 1) / kAtOnce), ThreadsOfBlock(),
                   &AddKernel, reinterpret_cast<const uint32_t*>(indices),
                   reinterpret_cast<const float*>(values), count, out);
}

}  // namespace strata::cuda
