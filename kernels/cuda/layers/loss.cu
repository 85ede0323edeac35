#include <cmath>

#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/values.cuh"

namespace strata::cuda {
namespace {

// One block per sample. The row's largest logit is taken off first, so that no exponential
// overflows; of equal ones, the first is the answer.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxLossKernel(const float* logits, unsigned classes, const uint16_t* labels,
                      device::SampleLoss* losses, T* gradient) {
  __shared__ float values[kThreads];
  __shared__ unsigned places[kThreads];
  const unsigned t = threadIdx.x;
  const float* const row = logits + static_cast<size_t>(blockIdx.x) * classes;
  float best = row[0];
  unsigned place = 0;
  for (unsigned c = t; c < classes; c += kThreads) {
    if (row[c] > best || (row[c] == best && c < place)) {
      best = row[c];
      place = c;
    }
  }
  values[t] = best;
  places[t] = place;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half && (values[t + half] > values[t] ||
                     (values[t + half] == values[t] && places[t + half] < places[t]))) {
      values[t] = values[t + half];
      places[t] = places[t + half];
    }
  }
  __syncthreads();
  const float largest = values[0];
  const unsigned answer = places[0];
  __syncthreads();
  float sum = 0;
  for (unsigned c = t; c < classes; c += kThreads) sum += expf(row[c] - largest);
  values[t] = sum;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) values[t] += values[t + half];
  }
  __syncthreads();
  const float total = values[0];
  const unsigned label = labels[blockIdx.x];
  if (t == 0) {
    // log(sum of exp) - logit of the label: also right where the label's probability underflows.
    losses[blockIdx.x] = {logf(total) - (row[label] - largest), answer == label ? 1u : 0u};
  }
  if (gradient == nullptr) return;
  T* const out = gradient + static_cast<size_t>(blockIdx.x) * classes;
  for (unsigned c = t; c < classes; c += kThreads) {
    const float probability = __fdiv_rn(expf(row[c] - largest), total);
    Set(out[c], c == label ? probability - 1.0f : probability);
  }
}

}  // namespace

absl::Status SoftmaxLoss(device::Stream& stream, const float* logits, size_t samples,
                         uint32_t classes, const uint16_t* labels, device::SampleLoss* losses,
                         device::Element element, void* gradient) {
  if (samples == 0) return absl::OkStatus();
  dim3 blocks;
  blocks.x = static_cast<unsigned>(samples);
  const auto launch = [&](auto* kernel, auto* out) {
    return Cast(stream).Launch("softmax_loss", blocks, ThreadsOfBlock(), kernel, logits, classes,
                               labels, losses, out);
  };
  if (element == device::Element::kBFloat16) {
    return launch(&SoftmaxLossKernel<BFloat16>, static_cast<BFloat16*>(gradient));
  }
  return launch(&SoftmaxLossKernel<float>, static_cast<float*>(gradient));
}

}  // namespace strata::cuda
