#include "training/nn/network/network.h"

#include <algorithm>
#include <cmath>

#include "common/require.h"

namespace strata::training {

LossSums SoftmaxCrossEntropy(const float* logits, size_t classes, absl::Span<const uint16_t> labels,
                             float* gradient) {
  LossSums sums;
  for (size_t i = 0; i < labels.size(); ++i) {
    STRATA_REQUIRE(labels[i] < classes);
    const float* row = logits + i * classes;
    const float* largest = std::max_element(row, row + classes);
    double total = 0;
    for (size_t c = 0; c < classes; ++c) total += std::exp(row[c] - *largest);
    // log(sum of exp) - logit of the label: also right where the label's probability underflows.
    sums.loss += std::log(total) - (static_cast<double>(row[labels[i]]) - *largest);
    sums.correct += static_cast<size_t>(largest - row) == labels[i];
    if (gradient == nullptr) continue;
    float* out = gradient + i * classes;
    for (size_t c = 0; c < classes; ++c) {
      out[c] = static_cast<float>(std::exp(row[c] - *largest) / total);
    }
    out[labels[i]] -= 1.0f;
  }
  return sums;
}

}  // namespace strata::training
