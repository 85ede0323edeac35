#ifndef STRATA_COMMON_JOB_PLACEMENT_H_
#define STRATA_COMMON_JOB_PLACEMENT_H_

#include <bit>
#include <cstdint>

#include "common/ids.h"
#include "common/os/limits.h"
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

// Returns whether a job with tables may have so many buckets: a power of two, so that bits of a
// row's hash name its bucket.
constexpr bool IsBucketCount(uint32_t buckets) {
  return std::has_single_bit(buckets) && buckets <= kBucketsMax;
}

}  // namespace strata

#endif  // STRATA_COMMON_JOB_PLACEMENT_H_
