#ifndef STRATA_COMMON_JOB_CONNECTIONS_H_
#define STRATA_COMMON_JOB_CONNECTIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/job/encoding.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"

namespace strata {

// Returns the maximum number of connections between two peers of a job.
inline uint32_t JobConnections(const proto::Job& job) {
  return std::max<uint32_t>(1, job.connections());
}

// Returns the maximum number of connections between a node and a shard: rows have one of their own.
inline uint32_t ShardConnections(const proto::JobRecord& record) {
  return JobConnections(record.job()) + (record.layout().tables().empty() ? 0 : 1);
}

// Returns the number of connections between two peers that exchange `chunks` chunks: at least 1,
// and at most the number of chunks.
inline uint32_t ConnectionsFor(const proto::Job& job, size_t chunks) {
  return static_cast<uint32_t>(std::clamp<size_t>(chunks, 1, JobConnections(job)));
}

// Returns which of them carries all frames of the chunk at `index` among those chunks, in order.
inline uint32_t ConnectionOf(size_t index, uint32_t connections) {
  return static_cast<uint32_t>(index % connections);
}

// How a job, with its defaults filled in, pushes to servers on the node's own host.

// Returns whether a server may still hold a push when it answers it: in lazy mode clocks ahead of
// the slowest node, with a quorum pushes that are late for their clock. Such pushes are not lent
// but go by value, so that a node's memory does not depend on how far it is ahead.
inline bool PushesOutliveAnswers(const proto::Job& job) {
  const proto::Lazy& lazy = job.consistency().lazy();
  return job.exchange() == proto::Job::PARAMETER_SERVER && job.consistency().has_lazy() &&
         lazy.apply() == proto::Lazy::PER_CLOCK && (lazy.staleness() > 0 || lazy.has_quorum());
}

// Returns whether pushes go over TCP although both peers share a host: pushes that outlive answers,
// and encoded ones, which are not in shared memory.
inline bool PushesGoByValue(const proto::Job& job) {
  return PushesOutliveAnswers(job) ||
         (job.exchange() == proto::Job::PARAMETER_SERVER &&
          (IsEncoded(job.push()) || job.consistency().lazy().has_significance()));
}

}  // namespace strata

#endif  // STRATA_COMMON_JOB_CONNECTIONS_H_
