#include "server/shard/sum/accumulator.h"

#include "common/require.h"
#include "server/shard/sum/ring_accumulator.h"
#include "server/shard/sum/tree_accumulator.h"

namespace strata::server {

Bytes Addend::Decoded(BufferPool& pool) const {
  if (!encoded) return bytes;
  const std::shared_ptr<float> floats = pool.AllocateFloats(encoded->elements());
  encoded->WriteTo(floats.get());
  return AsBytes(floats, encoded->elements());
}

std::unique_ptr<Accumulator> CreateAccumulator(proto::Addition::Order order,
                                               const kernels::Kernels& kernels, BufferPool& pool,
                                               size_t leaves, size_t elements) {
  STRATA_REQUIRE(leaves >= 1);
  if (order == proto::Addition::RING) {
    return std::make_unique<RingAccumulator>(kernels, pool, leaves, elements);
  }
  return std::make_unique<TreeAccumulator>(kernels, pool, leaves, elements);
}

size_t HeldMax(proto::Addition::Order order, size_t leaves) {
  return order == proto::Addition::RING ? leaves : (leaves + 1) / 2;
}

}  // namespace strata::server
