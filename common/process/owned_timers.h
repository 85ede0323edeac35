#ifndef STRATA_COMMON_PROCESS_OWNED_TIMERS_H_
#define STRATA_COMMON_PROCESS_OWNED_TIMERS_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/process/event_loop.h"

namespace strata {

// Timers of an event loop whose closures never run once this object is gone. A member of the object
// that the closures use makes it safe for them to hold its address.
//
// Threads: the loop's.
class OwnedTimers {
 public:
  explicit OwnedTimers(EventLoop* loop) : loop_(loop) {}
  OwnedTimers(const OwnedTimers&) = delete;
  OwnedTimers& operator=(const OwnedTimers&) = delete;

  // Runs the closure once, `delay` from now.
  void After(absl::Duration delay, std::function<void()> closure) {
    loop_->After(delay, [owner = std::weak_ptr<Owner>(owner_), closure = std::move(closure)] {
      if (!owner.expired()) closure();
    });
  }

 private:
  struct Owner {};

  EventLoop* const loop_;
  const std::shared_ptr<Owner> owner_ = std::make_shared<Owner>();
};

}  // namespace strata

#endif  // STRATA_COMMON_PROCESS_OWNED_TIMERS_H_
