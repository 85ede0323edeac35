#ifndef STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/ids.h"
#include "server/coordinator/jobs/job_entry.h"

namespace strata::server {

enum class SlotKind { kAny, kGpu };

// Returns how many slots of the daemon running jobs hold. A rank on a GPU holds one of both kinds.
uint32_t SlotsHeldOn(const std::string& daemon, SlotKind kind,
                     const std::map<JobId, JobEntry>& jobs);

// Returns who holds slots, in words: "job 3 holds 2, job 4 holds 1".
std::string DescribeHolders(SlotKind kind, const std::map<JobId, JobEntry>& jobs);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_
