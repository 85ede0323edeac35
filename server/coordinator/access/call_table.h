#ifndef STRATA_SERVER_COORDINATOR_ACCESS_CALL_TABLE_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_CALL_TABLE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/keys/identity.h"
#include "proto/control.pb.h"
#include "server/coordinator/access/policy.h"
#include "server/coordinator/members/job_owner.h"

namespace strata::server {

// The caller of a request to the coordinator.
struct Caller {
  enum class Kind {
    kStranger,  // showed no certificate
    kMember,    // showed a valid certificate of the cluster
    kOwner,     // a process of the coordinator's user on its host, or anybody at a coordinator that
                // accepts everybody
  };
  Kind kind = Kind::kStranger;
  keys::Identity identity = {};        // members only
  absl::Time certificate_begins = {};  // members only
  UserRights rights = {};              // users only

  bool is_user() const { return kind == Kind::kMember && identity.role == keys::Role::kUser; }
};

// "worker w1", "the coordinator's user", "a stranger".
std::string CallerText(const Caller& caller);

// The calls of proto/control.proto, keys.proto and logs.proto.
enum class Call {
  kSession,  // opens a daemon's session
  kSubmit,
  kSubmitProgram,  // submits a job with a program
  kCancel,
  kListJobs,  // lists the jobs that GetJob would show
  kGetJob,
  kListNodes,
  kFollow,
  kGetTrace,
  kOfferLogs,  // a worker offers to read its jobs' logs for viewers
  kReadLogs,
  kDrain,  // takes a daemon out of service, or queries how far that is
  kJoin,   // becomes a member with a token
  kRenew,  // replaces the caller's own certificate
  kMakeToken,
  kListKeys,
  kRevoke,
};

// The relation of a job to the caller.
struct JobSide {
  bool own = false;
  bool same_namespace = false;
};

enum class Verdict {
  kYes,
  kNo,
  kStranger,  // denied: a certificate is required
  kHidden,    // the job must look as if it did not exist
};

// Decides whether the caller may make the call. `job` is the job that the call is about; absent if
// it is about none, or about one that does not exist.
Verdict Decide(const Caller& caller, Call call, std::optional<JobSide> job);

JobSide SideOf(const Caller& caller, const JobOwner& owner);
// Returns the caller as the submitter of jobs.
Submitter SubmitterOf(const Caller& caller);

// Checks that the caller may make the call at all. Errors, one line each: Unauthenticated: a
// stranger; PermissionDenied.
absl::Status Allow(const Caller& caller, Call call);
// Checks that the caller may make the call about that job. Further errors: NoSuchJob.
absl::Status AllowJob(const Caller& caller, Call call, JobId job, const JobOwner& owner);
// Like AllowJob, for a job that does not exist. A caller that may not see all jobs gets exactly the
// error that a job of another namespace gives.
absl::Status AllowAbsentJob(const Caller& caller, Call call, JobId job);
// Checks that a daemon may register under that role and name: only under its own. Errors:
// PermissionDenied.
absl::Status AllowRegistration(const Caller& caller, const proto::Register& registration);
// Checks that a daemon may offer the logs of the worker of that name: only its own.
absl::Status AllowLogsOffer(const Caller& caller, const std::string& worker);

// Returns the call's name in the audit log: "submit", "get-trace".
std::string CallName(Call call);

// Checks that the caller's rights cover the job: its program, its number of ranks and the paths
// that it names. The caller has passed Allow. Errors: PermissionDenied in one line, which names the
// field.
absl::Status CheckSubmission(const Caller& caller, const proto::SubmitRequest& request);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_CALL_TABLE_H_
