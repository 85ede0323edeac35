#ifndef STRATA_COMMON_CLOSURE_QUEUE_H_
#define STRATA_COMMON_CLOSURE_QUEUE_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace strata {

// Hands work from other threads to the thread that owns some state: they Post closures, the owner
// runs them in order. Bounded: a full queue refuses. Closures left at destruction are destroyed
// without running.
//
// Threads: Post and Close from any; RunAll from the owner's.
class ClosureQueue {
 public:
  using Closure = absl::AnyInvocable<void()>;

  // `wake` is called, by the posting thread and outside of any lock, when the queue stops being
  // empty; it must make the owner call RunAll soon (EventFd::Notify, Endpoint::Wake). May be null.
  explicit ClosureQueue(std::function<void()> wake, size_t capacity = 65536)
      : wake_(std::move(wake)), capacity_(capacity) {}

  // Errors: ResourceExhausted (full), FailedPrecondition (closed); the closure is then destroyed.
  absl::Status Post(Closure closure);

  // Runs the closures posted before the call; those that they post wait for the next call. Returns
  // how many ran.
  size_t RunAll();

  // Refuses later posts; earlier closures can still run.
  void Close();

 private:
  const std::function<void()> wake_;
  const size_t capacity_;
  absl::Mutex mutex_;
  std::vector<Closure> closures_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata

#endif  // STRATA_COMMON_CLOSURE_QUEUE_H_
