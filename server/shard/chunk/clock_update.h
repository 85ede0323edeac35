#ifndef STRATA_SERVER_SHARD_CHUNK_CLOCK_UPDATE_H_
#define STRATA_SERVER_SHARD_CHUNK_CLOCK_UPDATE_H_

#include <cstdint>

#include "common/bytes.h"
#include "server/shard/chunk/consistency_mode.h"

namespace strata::server {

// Applies the mean gradient of a clock, or counts the version if no node had a sample. `rate`: that
// the nodes say of the clock, if they do.
void ApplyClock(const ChunkParts& chunk, const Bytes& sum, uint64_t samples, double rate);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CLOCK_UPDATE_H_
