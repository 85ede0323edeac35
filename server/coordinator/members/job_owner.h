#ifndef STRATA_SERVER_COORDINATOR_MEMBERS_JOB_OWNER_H_
#define STRATA_SERVER_COORDINATOR_MEMBERS_JOB_OWNER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/ids.h"

namespace strata::server {

// The owner of a job.
struct JobOwner {
  std::string user = {};    // empty: the coordinator's user
  std::string tenant = {};  // the user's namespace at submission; empty: the default one

  bool operator==(const JobOwner&) const = default;
};

// The submitter of a job, and which other jobs they may know of.
struct Submitter {
  JobOwner owner = {};
  bool sees_all = true;     // otherwise only those of the same namespace
  uint64_t request_id = 0;  // SubmitRequest.request_id

  bool Sees(const std::string& tenant) const { return sees_all || tenant == owner.tenant; }
};

// Returns NotFound. A job that the caller may not know of gives the same error.
inline absl::Status NoSuchJob(JobId job) {
  return absl::NotFoundError(absl::StrFormat("no job %d", job.value()));
}

// The rights of a user's queued jobs now.
struct QueueRights {
  bool may_submit = true;
  bool may_run_programs = true;
  uint32_t slots = 0;  // limit of ranks at once in the user's running jobs; 0: none
  // The user's keys were revoked at this time: jobs that were submitted before must not start.
  absl::Time revoked_until = absl::InfinitePast();
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_MEMBERS_JOB_OWNER_H_
