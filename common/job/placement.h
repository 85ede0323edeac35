#ifndef STRATA_COMMON_JOB_PLACEMENT_H_
#define STRATA_COMMON_JOB_PLACEMENT_H_

#include <cstdint>

#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata {

// In InstallJob.own_shards: the daemon's shard holds no shard of the job.
inline constexpr uint32_t kNoShard = 0xffffffff;

// Returns how often a shard of the job has moved. Frames of another generation are ignored, so that
// of two processes that both believe to be the shard's primary only one counts.
inline uint32_t ShardGeneration(const proto::Placement& placement, ShardId shard) {
  const int index = static_cast<int>(shard.value());
  return index < placement.shard_generations_size() ? placement.shard_generations(index)
                                                    : placement.generation();
}

}  // namespace strata

#endif  // STRATA_COMMON_JOB_PLACEMENT_H_
