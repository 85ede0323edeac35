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
    kStranger,  // has shown no certificate
    kMember,    // has one of the cluster that counts
    kOwner,     // a process of the coordinator's user on its host, or whoever reaches a coordinator
                // that was told to take everybody
  };
  Kind kind = Kind::kStranger;
  keys::Identity identity = {};        // of a member
  absl::Time certificate_begins = {};  // of a member
  UserRights rights = {};              // of a member that is a user

  bool is_user() const { return kind == Kind::kMember && identity.role == keys::Role::kUser; }
};

// "worker w1", "the coordinator's user", "a stranger".
std::string CallerText(const Caller& caller);

// The calls of proto/control.proto, keys.proto and logs.proto.
enum class Call {
  kSession,  // to be a server or worker
  kSubmit,
  kSubmitProgram,  // Submit of a job with a program
  kCancel,
  kListJobs,  // lists those that GetJob would show
  kGetJob,
  kListNodes,
  kFollow,
  kGetTrace,
  kOfferLogs,  // a worker, to read its jobs' logs for those who look at them
  kReadLogs,
  kDrain,  // to take a daemon out of service, or look how far that is
  kJoin,   // to become a member, with a token
  kRenew,  // to get a new certificate in place of one's own
  kMakeToken,
  kListKeys,
  kRevoke,
};

// Whose a job is, seen by who asks about it.
struct JobSide {
  bool own = false;
  bool same_namespace = false;
};

enum class Verdict {
  kYes,
  kNo,
  kStranger,  // no: a certificate is needed
  kHidden,    // the job is to read as one that does not exist
};

// The table of who may do what. `job`: that the call is about; none: it is about none, or none that
// exists.
Verdict Decide(const Caller& caller, Call call, std::optional<JobSide> job);

JobSide SideOf(const Caller& caller, const JobOwner& owner);
// Returns the submitter of the caller's jobs.
Submitter SubmitterOf(const Caller& caller);

// Checks that the caller may make the call at all. Errors: Unauthenticated: a stranger;
// PermissionDenied; each in one line.
absl::Status Allow(const Caller& caller, Call call);
// Checks that they may make it about that job. Errors besides: NoSuchJob.
absl::Status AllowJob(const Caller& caller, Call call, JobId job, const JobOwner& owner);
// The same of a job that does not exist: it is refused to whoever may not know of all jobs, word
// for word as one of another namespace.
absl::Status AllowAbsentJob(const Caller& caller, Call call, JobId job);
// Checks that a daemon may register under that role and name: only its own. Errors:
// PermissionDenied.
absl::Status AllowRegistration(const Caller& caller, const proto::Register& registration);
// Checks that a daemon may offer to read logs as the worker of that name: likewise.
absl::Status AllowLogsOffer(const Caller& caller, const std::string& worker);

// "submit", "get-trace": as the audit log names it.
std::string CallName(Call call);

// Checks that the caller's rights allow a job, past Allow: a program, as many ranks, and the paths
// that it names. Errors: PermissionDenied in one line, which names the field.
absl::Status CheckSubmission(const Caller& caller, const proto::SubmitRequest& request);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_CALL_TABLE_H_
