#ifndef STRATA_COMMON_IMAGE_LOCAL_STEPS_IMAGE_H_
#define STRATA_COMMON_IMAGE_LOCAL_STEPS_IMAGE_H_

#include <cstdint>

#include "common/bytes.h"
#include "common/image/chunk_image.h"

namespace strata {

// What a node that makes local steps keeps of one chunk between two rounds.
struct LocalStepsImage {
  uint64_t clock = 0;         // steps made
  uint32_t last_samples = 0;  // of the last round
  WeightImage own;            // its weights, with the state of its own optimizer
  Bytes start;                // fp32: the weights that changes are counted from
};

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_LOCAL_STEPS_IMAGE_H_
