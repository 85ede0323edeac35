#ifndef STRATA_COMMON_JOB_EXCHANGE_SAME_HOST_H_
#define STRATA_COMMON_JOB_EXCHANGE_SAME_HOST_H_

#include "common/job/encoding.h"
#include "proto/job.pb.h"

namespace strata {

// How a job, whose defaults are filled in, pushes to servers of the node's own host.

// Whether a server may still hold a push when it answers it: in lazy mode the clocks ahead of the
// slowest; with a quorum what comes too late for its clock. Such pushes are not lent, and go by
// value: what a node holds of memory does not depend on how far it is ahead.
inline bool PushesOutliveAnswers(const proto::Job& job) {
  const proto::Lazy& lazy = job.consistency().lazy();
  return job.exchange() == proto::Job::PARAMETER_SERVER && job.consistency().has_lazy() &&
         lazy.apply() == proto::Lazy::PER_CLOCK && (lazy.staleness() > 0 || lazy.has_quorum());
}

// Whether pushes go over TCP although the host is the same: those that outlive answers, and encoded
// ones, which do not lie in memory that others read.
inline bool PushesGoByValue(const proto::Job& job) {
  return PushesOutliveAnswers(job) ||
         (job.exchange() == proto::Job::PARAMETER_SERVER &&
          (IsEncoded(job.push()) || job.consistency().lazy().has_significance()));
}

}  // namespace strata

#endif  // STRATA_COMMON_JOB_EXCHANGE_SAME_HOST_H_
