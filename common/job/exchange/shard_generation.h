#ifndef STRATA_COMMON_JOB_EXCHANGE_SHARD_GENERATION_H_
#define STRATA_COMMON_JOB_EXCHANGE_SHARD_GENERATION_H_

#include <cstdint>

#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata {

// How often it has been said anew where a shard of a job lies. Frames of another generation are not
// heard, so that of two processes that both take themselves for the shard's primary only one is.
inline uint32_t ShardGeneration(const proto::Placement& placement, ShardId shard) {
  const int index = static_cast<int>(shard.value());
  return index < placement.shard_generations_size() ? placement.shard_generations(index)
                                                    : placement.generation();
}

}  // namespace strata

#endif  // STRATA_COMMON_JOB_EXCHANGE_SHARD_GENERATION_H_
