#ifndef STRATA_COMMON_COPY_FLOATS_H_
#define STRATA_COMMON_COPY_FLOATS_H_

#include <cstddef>
#include <memory>

#include "common/buffer_pool.h"
#include "common/copies.h"

namespace strata {

// Returns a copy of `count` floats in memory of the pool, counted under its reason.
inline std::shared_ptr<float> CopyFloats(CopyReason reason, BufferPool& pool, const float* from,
                                         size_t count) {
  std::shared_ptr<float> copy = pool.AllocateFloats(count);
  CopyBytes(reason, copy.get(), from, count * sizeof(float));
  return copy;
}

}  // namespace strata

#endif  // STRATA_COMMON_COPY_FLOATS_H_
