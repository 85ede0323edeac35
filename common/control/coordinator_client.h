#ifndef STRATA_COMMON_CONTROL_COORDINATOR_CLIENT_H_
#define STRATA_COMMON_CONTROL_COORDINATOR_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "common/ids.h"
#include "proto/control.pb.h"

namespace strata::control {

// The command line's calls to the coordinator. Each waits until the coordinator can be reached, up
// to `deadline`; then Unavailable, naming the address. FailedPrecondition: there are no keys for
// it, or it does not accept them, or it is not trusted. Other errors are the coordinator's own:
// InvalidArgument (a job that it refuses), NotFound (no such job), FailedPrecondition (another
// protocol version).
//
// Threads: any; calls may run side by side.
class CoordinatorClient {
 public:
  struct Options {
    // "HOST:PORT", "unix:/PATH"; "HOST:PORT,HOST:PORT": the one that leads is found.
    std::string coordinator;
    Credentials credentials = {};  // with a HOST:PORT
    absl::Duration deadline = absl::Seconds(10);
    bool reports = false;  // Follow also returns each rank's reports
  };

  virtual ~CoordinatorClient() = default;
  static std::unique_ptr<CoordinatorClient> Create(Options options);

  // If the connection breaks before the answer, the request is repeated; the job is accepted only
  // once. After Unavailable it may have been accepted.
  virtual absl::StatusOr<JobId> Submit(const proto::Job& job,
                                       const proto::ResumeFrom& resume = {}) = 0;
  // An ended job is fine, too.
  virtual absl::Status Cancel(JobId job) = 0;
  virtual absl::StatusOr<std::vector<proto::JobStatus>> ListJobs() = 0;
  virtual absl::StatusOr<proto::JobStatus> GetJob(JobId job) = 0;
  virtual absl::StatusOr<proto::ListNodesReply> ListNodes() = 0;

  // Calls `on_event` in this thread with the job's status now and after each change, and with new
  // metrics; returns the final status. Continues after a lost connection, with the full `deadline`
  // again. Cancelled: by StopFollowing.
  virtual absl::StatusOr<proto::JobStatus> Follow(
      JobId job, const std::function<void(const proto::FollowEvent&)>& on_event) = 0;
  // Calls `on_batch` in this thread with all that the job's processes recorded, once the job has
  // ended and they have sent everything. Further errors: FailedPrecondition (the job is not
  // traced), Unavailable (the connection broke), Cancelled: by StopFollowing.
  virtual absl::Status GetTrace(JobId job,
                                const std::function<void(const proto::TraceBatch&)>& on_batch) = 0;
  // Ends every Follow and GetTrace, also later ones; from any thread.
  virtual void StopFollowing() = 0;

  // Takes a daemon out of service, puts it back, or queries how far that is. Further errors:
  // NotFound (no such daemon), FailedPrecondition (not possible now).
  virtual absl::StatusOr<proto::DrainReply> Drain(const proto::DrainRequest& request) = 0;
};

// Waits until the last checkpoint of a finished job is written or has failed, at most for `timeout`
// and while `still_wanted`: it may still be written when the job ends.
void AwaitLastCheckpoint(CoordinatorClient* client, const proto::JobStatus& end,
                         absl::Duration timeout, const std::function<bool()>& still_wanted);

// Returns whether the job has ended: finished, failed or cancelled.
bool HasEnded(proto::JobState state);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_COORDINATOR_CLIENT_H_
