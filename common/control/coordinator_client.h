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
    // "HOST:PORT", "unix:/PATH"; "HOST:PORT,HOST:PORT": of which one leads, and is found.
    std::string coordinator;
    Credentials credentials = {};  // with a HOST:PORT
    absl::Duration deadline = absl::Seconds(10);
    bool reports = false;  // Follow tells each rank's reports, too
  };

  virtual ~CoordinatorClient() = default;
  static std::unique_ptr<CoordinatorClient> Create(Options options);

  // When the line breaks before the answer, it is asked again, and the job is taken in once. After
  // Unavailable it may have been.
  virtual absl::StatusOr<JobId> Submit(const proto::Job& job,
                                       const proto::ResumeFrom& resume = {}) = 0;
  // Fine, too, for a job that has ended.
  virtual absl::Status Cancel(JobId job) = 0;
  virtual absl::StatusOr<std::vector<proto::JobStatus>> ListJobs() = 0;
  virtual absl::StatusOr<proto::JobStatus> GetJob(JobId job) = 0;
  virtual absl::StatusOr<proto::ListNodesReply> ListNodes() = 0;

  // Calls `on_event` in this thread with the job's status now and after each change and with new
  // metrics; returns the final status. Goes on after a break, for which `deadline` holds again.
  // Cancelled: by StopFollowing.
  virtual absl::StatusOr<proto::JobStatus> Follow(
      JobId job, const std::function<void(const proto::FollowEvent&)>& on_event) = 0;
  // Calls `on_batch` in this thread with all that the processes of the job recorded, once it has
  // ended and they have said so. Errors besides: FailedPrecondition (the job is not traced),
  // Unavailable (the line broke), Cancelled: by StopFollowing.
  virtual absl::Status GetTrace(JobId job,
                                const std::function<void(const proto::TraceBatch&)>& on_batch) = 0;
  // Ends every Follow and GetTrace, also later ones; from any thread.
  virtual void StopFollowing() = 0;

  // Takes a daemon out of service, back into it, or asks how far that is. Errors besides: NotFound
  // (no such daemon), FailedPrecondition (it cannot be now).
  virtual absl::StatusOr<proto::DrainReply> Drain(const proto::DrainRequest& request) = 0;
};

// Waits until the last checkpoint of a job that has finished is written, or has failed, or for
// `timeout`, as long as `still_wanted`: it may be under way when the job ends.
void AwaitLastCheckpoint(CoordinatorClient* client, const proto::JobStatus& end,
                         absl::Duration timeout, const std::function<bool()>& still_wanted);

// Returns whether the job has ended: finished, failed or cancelled.
bool HasEnded(proto::JobState state);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_COORDINATOR_CLIENT_H_
