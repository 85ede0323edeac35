#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_SCENE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_SCENE_H_

#include "absl/time/time.h"
#include "server/coordinator/diagnosis/wait_diagnosis.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {

// Describes a running job for the diagnosis of its waits, which points into `entry`. REQUIRES:
// entry.running().
JobScene DescribeScene(const JobEntry& entry, const Membership& membership, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_SCENE_H_
