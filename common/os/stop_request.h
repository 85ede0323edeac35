#ifndef STRATA_COMMON_OS_STOP_REQUEST_H_
#define STRATA_COMMON_OS_STOP_REQUEST_H_

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace strata {

// Makes SIGTERM, SIGINT and SIGHUP of this process waitable. A SIGHUP that was ignored, as by
// nohup, stays ignored. Create it in main before any thread starts: threads inherit the blocked
// signals.
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
  // The first status passed to Raise; OK: none.
  absl::Status raised() const;

  // Readable from the first signal on; for an EventLoop instead of Wait.
  int signal_fd() const { return signal_fd_; }

 private:
  int signal_fd_;
  bool took_first_ = false;  // the signal that ended Wait was read
  int raised_fd_;
  mutable absl::Mutex mutex_;
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// SIGUSR1 and SIGUSR2 of this process, which are passed on to the programs that it runs. One that
// was ignored stays ignored. Create it like StopRequest.
//
// Threads: one.
class PassedSignals {
 public:
  PassedSignals();
  ~PassedSignals();
  PassedSignals(const PassedSignals&) = delete;
  PassedSignals& operator=(const PassedSignals&) = delete;

  // Readable while a signal waits; for an EventLoop.
  int fd() const { return fd_; }
  // Returns a received signal; nullopt: none waits.
  std::optional<int> Next();

 private:
  int fd_;
};

}  // namespace strata

#endif  // STRATA_COMMON_OS_STOP_REQUEST_H_
