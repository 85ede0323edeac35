#ifndef STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_
#define STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/device/communicator.h"

namespace strata::nccl {

// Aborts a communicator once its library has met an error or nobody is to be waited for any more.
// A sum that can never be complete holds up its stream, those that wait for that one, and a host
// that waits for any of these, which is then in no state to look itself.
//
// The library tells a rank of a peer that is gone before the job can know whose fault that is, so
// the job has some seconds to say it before the library's error is taken for the cause.
//
// Threads: any, but one alone stops it; a thread of this object's own looks, fifty times a second.
class CommunicatorWatch {
 public:
  // The communicator outlives this object. `still_wanted` is called on this object's thread.
  CommunicatorWatch(device::Communicator* communicator, device::StillWanted still_wanted);
  // Stops.
  ~CommunicatorWatch();
  CommunicatorWatch(const CommunicatorWatch&) = delete;
  CommunicatorWatch& operator=(const CommunicatorWatch&) = delete;

  // Nobody looks any more.
  void Stop();
  // Why the communicator was aborted; OK: it was not.
  absl::Status status() const;
  // Does the same for who has met `error` in what it asked of the library or the device: the error,
  // if nothing else is known after those seconds. Blocks until then.
  absl::Status FindCause(absl::Status error);

 private:
  void Run();
  // Until there is something to abort for. OK: it was stopped.
  absl::Status Look();

  device::Communicator* const communicator_;
  const device::StillWanted still_wanted_;
  mutable absl::Mutex mutex_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status met_ ABSL_GUARDED_BY(mutex_);  // by those who asked for its cause
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool looks_no_more_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_COMMUNICATOR_WATCH_H_
