#ifndef STRATA_SERVER_COORDINATOR_TENANTS_JOB_OWNER_H_
#define STRATA_SERVER_COORDINATOR_TENANTS_JOB_OWNER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/ids.h"

namespace strata::server {

// Whose a job is.
struct JobOwner {
  std::string user = {};    // empty: the coordinator's user
  std::string tenant = {};  // the user's namespace when it was submitted; empty: the default one

  bool operator==(const JobOwner&) const = default;
};

// Who submits a job, and which of the others they know of.
struct Submitter {
  JobOwner owner = {};
  bool sees_all = true;  // else those of the same namespace

  bool Sees(const std::string& tenant) const { return sees_all || tenant == owner.tenant; }
};

// NotFound. A job that somebody may not know of reads the same.
inline absl::Status NoSuchJob(JobId job) {
  return absl::NotFoundError(absl::StrFormat("no job %d", job.value()));
}

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TENANTS_JOB_OWNER_H_
