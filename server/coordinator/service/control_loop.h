#ifndef STRATA_SERVER_COORDINATOR_SERVICE_CONTROL_LOOP_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_CONTROL_LOOP_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/closure_queue.h"

namespace strata::server {

// The one thread that owns the coordinator's state. Post from any thread; Start and Stop from one.
class ControlLoop {
 public:
  // `tick` runs on the loop's thread every `period`, between closures.
  ControlLoop(std::function<void()> tick, absl::Duration period);
  ~ControlLoop() { Stop(); }

  void Start();
  // Runs what was posted before, then ends. Idempotent.
  void Stop();

  // Runs the closure on the loop's thread. Errors: those of ClosureQueue::Post; the closure will
  // not run.
  absl::Status Post(ClosureQueue::Closure closure) { return queue_.Post(std::move(closure)); }
  // Posts and waits until the closure has run; never from the loop's thread.
  absl::Status Run(const std::function<void()>& closure);

 private:
  void Loop();

  const std::function<void()> tick_;
  const absl::Duration period_;
  ClosureQueue queue_;
  std::thread thread_;

  absl::Mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_CONTROL_LOOP_H_
