#ifndef STRATA_COMMON_PROCESS_STOP_REQUEST_H_
#define STRATA_COMMON_PROCESS_STOP_REQUEST_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace strata {

// Turns SIGTERM, SIGINT and SIGHUP of this process into something to wait for. Create it in main
// before any thread starts: threads inherit the blocked signals.
//
// Threads: Raise from any thread; Wait from one.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Blocks until a signal (then Ok) or Raise (then its status, the first one's).
  absl::Status Wait();

  // Blocks until another signal, or Raise; at most for `timeout`. Returns whether there was one.
  // REQUIRES: Wait has returned.
  bool WaitForMore(absl::Duration timeout);

  void Raise(const absl::Status& status);
  // What it was raised with; Ok: it was not.
  absl::Status raised() const;

  // Readable from the first signal on; for an EventLoop instead of Wait.
  int signal_fd() const { return signal_fd_; }

 private:
  int signal_fd_;
  bool took_first_ = false;  // the signal that ended Wait
  int raised_fd_;
  mutable absl::Mutex mutex_;
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata

#endif  // STRATA_COMMON_PROCESS_STOP_REQUEST_H_
