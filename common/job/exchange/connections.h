#ifndef STRATA_COMMON_JOB_EXCHANGE_CONNECTIONS_H_
#define STRATA_COMMON_JOB_EXCHANGE_CONNECTIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proto/job.pb.h"

namespace strata {

// Returns how many connections two peers of a job have at most.
inline uint32_t JobConnections(const proto::Job& job) {
  return std::max<uint32_t>(1, job.connections());
}

// Returns how many connections two peers have that move so many chunks: at least 1, and no more
// than there are chunks.
inline uint32_t ConnectionsFor(const proto::Job& job, size_t chunks) {
  return static_cast<uint32_t>(std::clamp<size_t>(chunks, 1, JobConnections(job)));
}

// Returns which of them carries all frames of the chunk at `index` among those chunks, in order.
inline uint32_t ConnectionOf(size_t index, uint32_t connections) {
  return static_cast<uint32_t>(index % connections);
}

}  // namespace strata

#endif  // STRATA_COMMON_JOB_EXCHANGE_CONNECTIONS_H_
