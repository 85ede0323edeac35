#ifndef STRATA_COMMON_JOB_EXCHANGE_OWN_SHARDS_H_
#define STRATA_COMMON_JOB_EXCHANGE_OWN_SHARDS_H_

#include <cstdint>

namespace strata {

// In InstallJob.own_shards: the daemon's shard holds none of the job's.
inline constexpr uint32_t kNoShard = 0xffffffff;

}  // namespace strata

#endif  // STRATA_COMMON_JOB_EXCHANGE_OWN_SHARDS_H_
