#ifndef STRATA_CLI_OPTIONS_INTERRUPT_H_
#define STRATA_CLI_OPTIONS_INTERRUPT_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/os/stop_request.h"

namespace strata::cli {

// Ctrl-C and SIGTERM while a command follows a job. Create it before anything that starts threads.
//
// Threads: any.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  // Makes the first signal from now on call `on_signal`, on another thread; without one (initially,
  // and with null) it ends the process at once with Interrupt's exit status. On return no earlier
  // callback runs any more.
  void Catch(std::function<void()> on_signal);

  // 128 plus the signal's number; 128 if there was none.
  int exit_status();

 private:
  void Wait();

  StopRequest request_;
  absl::Mutex mutex_;
  std::function<void()> on_signal_ ABSL_GUARDED_BY(mutex_);
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_INTERRUPT_H_
