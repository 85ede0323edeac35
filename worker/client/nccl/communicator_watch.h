#ifndef STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_
#define STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/device/communicator.h"

namespace strata::nccl {

// Aborts a communicator once its library has met an error or its rank must not wait for others any
// more. A sum that can never complete blocks its stream, the streams that wait for that one, and a
// host that waits for any of these, which then cannot check by itself.
//
// The library may report a lost peer before the job can know its cause, so the job gets some time
// to report it before the library's error counts as the cause.
//
// Threads: any, but only one stops it; a thread of this object's own checks, fifty times a second.
class CommunicatorWatch {
 public:
  // More than the worker daemon waits for the exit of a process that has died.
  static constexpr absl::Duration kForTheJob = absl::Seconds(3);
  // If the job continues without nodes that die, the coordinator decides which these are, and may
  // itself be away for a while.
  static constexpr absl::Duration kForTheCoordinator = absl::Minutes(10);

  // The communicator outlives this object. `still_wanted` is called on this object's thread, until
  // it returns an error other than Aborted. `for_the_job`: how long the job has to report the cause
  // of a library error.
  CommunicatorWatch(device::Communicator* communicator, device::StillWanted still_wanted,
                    absl::Duration for_the_job = kForTheJob);
  // Stops.
  ~CommunicatorWatch();
  CommunicatorWatch(const CommunicatorWatch&) = delete;
  CommunicatorWatch& operator=(const CommunicatorWatch&) = delete;

  // Ends the checks.
  void Stop();
  // Why the communicator was aborted; OK: it was not.
  absl::Status status() const;
  // The same for a caller that got `error` from the library or the device: returns `error` if no
  // other cause is known after that time. Blocks until then.
  absl::Status FindCause(absl::Status error);

 private:
  void Run();
  // Runs until there is a reason to abort. OK: it was stopped.
  absl::Status Look();

  device::Communicator* const communicator_;
  const device::StillWanted still_wanted_;
  const absl::Duration for_the_job_;
  mutable absl::Mutex mutex_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status met_ ABSL_GUARDED_BY(mutex_);  // from callers that asked for its cause
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool looks_no_more_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_
