#include "server/shard/chunk/clock_update.h"

namespace strata::server {

void ApplyClock(const ChunkParts& chunk, const Bytes& sum, uint64_t samples, double rate) {
  if (samples == 0) return chunk.weights.Skip();
  chunk.weights.Apply(sum, static_cast<float>(1.0 / static_cast<double>(samples)), samples,
                      {.said = rate});
}

}  // namespace strata::server
