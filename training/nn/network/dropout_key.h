#ifndef STRATA_TRAINING_NN_NETWORK_DROPOUT_KEY_H_
#define STRATA_TRAINING_NN_NETWORK_DROPOUT_KEY_H_

#include <cstdint>

#include "common/random.h"

namespace strata::worker {

// The key that dropout draws with in every backend: element i of a batch (channels x height x width
// of each sample) is dropped where RandomUniform(key, i) < rate. `layer` is its index in the model.
constexpr uint64_t DropoutKey(uint64_t seed, uint64_t layer, uint32_t rank, uint64_t step) {
  constexpr uint64_t kStream = 0x64726f706f7574u;
  return RandomKey(RandomKey(RandomKey(RandomKey(seed, kStream), layer), rank), step);
}

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_NETWORK_DROPOUT_KEY_H_
