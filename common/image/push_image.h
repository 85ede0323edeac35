#ifndef STRATA_COMMON_IMAGE_PUSH_IMAGE_H_
#define STRATA_COMMON_IMAGE_PUSH_IMAGE_H_

#include <cstdint>
#include <vector>

#include "common/bytes.h"

namespace strata {

// What a node keeps of one chunk between two pushes, where pushes are encoded.
struct PushImage {
  std::vector<Bytes> unsent;  // fp32, as Encoder::State has it: what was not sent; of DGC v and u
  uint64_t samples = 0;       // of the sums so far, where the density follows them
};

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_PUSH_IMAGE_H_
