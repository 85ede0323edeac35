#ifndef STRATA_TRAINING_NN_NETWORK_LOSS_H_
#define STRATA_TRAINING_NN_NETWORK_LOSS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace strata::worker {

// Sums over samples.
struct LossSums {
  double loss = 0;
  uint64_t correct = 0;  // the largest logit is the label's
};

// Softmax cross-entropy of rows of `classes` logits. Writes the gradient of the *summed* loss with
// respect to the logits (softmax - one-hot, not divided by the number of samples), unless
// `gradient` is null. The row's largest logit is taken off first, so that no exponential overflows.
// REQUIRES: each label below classes.
LossSums SoftmaxCrossEntropy(const float* logits, size_t classes, absl::Span<const uint16_t> labels,
                             float* gradient);

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_NETWORK_LOSS_H_
