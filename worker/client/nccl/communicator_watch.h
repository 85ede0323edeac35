#ifndef STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_
#define STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/device/communicator.h"

namespace strata::nccl {

// Aborts a communicator once its library has met an error or nobody is to be waited for any more.
// A sum that can never be complete holds up its stream, those that wait for that one, and a host
// that waits for any of these, which is then in no state to look itself.
//
// The library tells a rank of a peer that is gone before the job can know whose fault that is, so
// the job has some time to say it before the library's error is taken for the cause.
//
// Threads: any, but one alone stops it; a thread of this object's own looks, fifty times a second.
class CommunicatorWatch {
 public:
  // More than the worker daemon waits for the end of a process that has died.
  static constexpr absl::Duration kForTheJob = absl::Seconds(3);
  // Where the job continues without those that die: who they are, the coordinator says, which may
  // itself be away for a while.
  static constexpr absl::Duration kForTheCoordinator = absl::Minutes(10);

  // The communicator outlives this object. `still_wanted` is called on this object's thread: until
  // it says why not, or, where that is Aborted, on and on. `for_the_job`: that the job has to say
  // what an error of the library follows from.
  CommunicatorWatch(device::Communicator* communicator, device::StillWanted still_wanted,
                    absl::Duration for_the_job = kForTheJob);
  // Stops.
  ~CommunicatorWatch();
  CommunicatorWatch(const CommunicatorWatch&) = delete;
  CommunicatorWatch& operator=(const CommunicatorWatch&) = delete;

  // Nobody looks any more.
  void Stop();
  // Why the communicator was aborted; OK: it was not.
  absl::Status status() const;
  // Does the same for who has met `error` in what it asked of the library or the device: the error,
  // if nothing else is known after that time. Blocks until then.
  absl::Status FindCause(absl::Status error);

 private:
  void Run();
  // Until there is something to abort for. OK: it was stopped.
  absl::Status Look();

  device::Communicator* const communicator_;
  const device::StillWanted still_wanted_;
  const absl::Duration for_the_job_;
  mutable absl::Mutex mutex_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status met_ ABSL_GUARDED_BY(mutex_);  // by those who asked for its cause
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool looks_no_more_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_
