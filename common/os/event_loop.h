#ifndef STRATA_COMMON_OS_EVENT_LOOP_H_
#define STRATA_COMMON_OS_EVENT_LOOP_H_

#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace strata {

// One thread's loop over file descriptors, timers and closures that other threads post.
//
// Threads: Post and Stop from any thread; all else from the loop's thread, or before Run. Callbacks
// run on the loop's thread; they must not block.
class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs until Stop; closures posted before Stop have run then.
  void Run();
  void Stop();

  // Runs the closure on the loop's thread. From another thread it blocks while kQueuedMessagesMax
  // closures wait: the loop is behind.
  void Post(std::function<void()> closure);

  // Runs the closure once, `delay` from now. It cannot be cancelled: the closure checks whether it
  // still applies. An object that may be destroyed before the loop uses OwnedTimers.
  void After(absl::Duration delay, std::function<void()> closure);

  // Calls `ready` whenever poll reports one of `events` (POLLIN, POLLOUT), an error or a hang-up.
  // The caller keeps the descriptor. Watching it again replaces events and callback.
  void Watch(int fd, short events, std::function<void(short revents)> ready);
  void Unwatch(int fd);

 private:
  struct Watched {
    short events = 0;
    std::function<void(short)> ready;
  };

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunPosted();
  void RunTimers();
  int PollTimeoutMs() const;

  int wake_fd_;
  std::map<int, Watched> watched_;
  std::multimap<absl::Time, std::function<void()>> timers_;
  absl::Mutex mutex_;
  // The thread that is in Run; none before and after.
  std::thread::id thread_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

// Timers of an event loop, or of a simulated clock, whose closures never run after this object is
// destroyed. As a member of the object that the closures use, it lets them hold that object's
// address safely.
//
// `Loop` has After(absl::Duration, std::function<void()>). Threads: the loop's.
template <typename Loop>
class OwnedTimers {
 public:
  explicit OwnedTimers(Loop* loop) : loop_(loop) {}
  OwnedTimers(const OwnedTimers&) = delete;
  OwnedTimers& operator=(const OwnedTimers&) = delete;

  // Runs the closure once, `delay` from now.
  void After(absl::Duration delay, std::function<void()> closure) {
    loop_->After(delay, [owner = std::weak_ptr<Owner>(owner_), closure = std::move(closure)] {
      if (!owner.expired()) closure();
    });
  }
  // Cancels all closures, also future ones.
  void Cancel() { owner_.reset(); }

 private:
  struct Owner {};

  Loop* const loop_;
  std::shared_ptr<Owner> owner_ = std::make_shared<Owner>();
};

}  // namespace strata

#endif  // STRATA_COMMON_OS_EVENT_LOOP_H_
