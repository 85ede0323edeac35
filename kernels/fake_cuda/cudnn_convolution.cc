#include "kernels/fake_cuda/cudnn_convolution.h"

#include <vector>

namespace fake_cuda {
namespace {

size_t Elements(const Convolution::Dimensions& of) { return of[0] * of[1] * of[2] * of[3]; }

std::vector<double> Read(const Values& from, size_t count) {
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = from.Get(i);
  return numbers;
}
void Write(const std::vector<double>& numbers, const Values& to) {
  for (size_t i = 0; i < numbers.size(); ++i) to.Set(i, numbers[i]);
}

}  // namespace

bool Convolution::Fits() const {
  if (source[0] != output[0] || source[1] != weights[1] || weights[0] != output[1]) return false;
  for (int i = 0; i < 2; ++i) {
    const int64_t room = source[2 + i] + 2 * padding[i] - weights[2 + i];
    if (room < 0 || stride[i] < 1 || output[2 + i] != room / stride[i] + 1) return false;
  }
  return true;
}

void Convolution::Compute(const Values& x, const Values& w, const Values& y) const {
  const size_t xs = Elements(source), ws = Elements(weights), ys = Elements(output);
  auto in = pass == kSourceGradient ? std::vector<double>(xs) : Read(x, xs);
  auto of = pass == kWeightGradient ? std::vector<double>(ws) : Read(w, ws);
  auto out = pass == kForward ? std::vector<double>(ys) : Read(y, ys);
  const int64_t channels = source[1], outputs = output[1];
  for (int64_t n = 0; n < output[0]; ++n) {
    for (int64_t i = 0; i < output[2]; ++i) {
      for (int64_t j = 0; j < output[3]; ++j) {
        for (int64_t r = 0; r < weights[2]; ++r) {
          const int64_t row = i * stride[0] + r - padding[0];
          if (row < 0 || row >= source[2]) continue;
          for (int64_t s = 0; s < weights[3]; ++s) {
            const int64_t column = j * stride[1] + s - padding[1];
            if (column < 0 || column >= source[3]) continue;
            double* const place = &in[((n * source[2] + row) * source[3] + column) * channels];
            for (int64_t k = 0; k < outputs; ++k) {
              double& value = out[((n * output[2] + i) * output[3] + j) * outputs + k];
              double* const weight = &of[((k * weights[2] + r) * weights[3] + s) * channels];
              for (int64_t c = 0; c < channels; ++c) {
                if (pass == kForward) value += place[c] * weight[c];
                if (pass == kSourceGradient) place[c] += value * weight[c];
                if (pass == kWeightGradient) weight[c] += value * place[c];
              }
            }
          }
        }
      }
    }
  }
  if (pass == kForward) Write(out, y);
  if (pass == kSourceGradient) Write(in, x);
  if (pass == kWeightGradient) Write(of, w);
}

}  // namespace fake_cuda
