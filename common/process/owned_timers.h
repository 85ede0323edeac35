#ifndef STRATA_COMMON_PROCESS_OWNED_TIMERS_H_
#define STRATA_COMMON_PROCESS_OWNED_TIMERS_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"

namespace strata {

// Timers of an event loop, or of a simulated clock, whose closures never run once this object is
// gone. A member of the object that the closures use makes it safe for them to hold its address.
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
  // Runs no closure any more, given before or from now on.
  void Cancel() { owner_.reset(); }

 private:
  struct Owner {};

  Loop* const loop_;
  std::shared_ptr<Owner> owner_ = std::make_shared<Owner>();
};

}  // namespace strata

#endif  // STRATA_COMMON_PROCESS_OWNED_TIMERS_H_
