#ifndef STRATA_COMMON_TRANSPORT_SIM_SIM_CLOCK_H_
#define STRATA_COMMON_TRANSPORT_SIM_SIM_CLOCK_H_

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/require.h"
#include "common/transport/sim/event_queue.h"

namespace strata::transport {

// Time that passes from event to event. Events at the same time come in the order of their adding,
// so that a run is the same each time.
//
// Threads: one.
class SimClock final : public ClockInterface {
 public:
  using Call = std::function<void()>;

  // The longest delay; what is to take longer takes so long.
  static absl::Duration DelayMax() { return absl::Hours(24 * 365); }

  absl::Time Now() const override { return queue_.now(); }
  double Seconds() const { return absl::ToDoubleSeconds(Now() - absl::UnixEpoch()); }

  // Calls `call` then. Never cancelled.
  void After(absl::Duration delay, Call call) {
    queue_.Add(std::min(delay, DelayMax()), std::move(call));
  }
  void At(absl::Time time, Call call) { After(time - Now(), std::move(call)); }

  // When the next event is due; InfiniteFuture: there is none.
  absl::Time next_at() const { return queue_.empty() ? absl::InfiniteFuture() : queue_.next_at(); }
  // Moves on to the next event; false: there is none.
  bool RunOne() {
    if (queue_.empty()) return false;
    queue_.Take()();
    return true;
  }
  // Lets time pass. REQUIRES: no event is due before.
  void AdvanceTo(absl::Time time) {
    STRATA_REQUIRE(time <= next_at());
    queue_.AdvanceTo(time);
  }

 private:
  EventQueue<Call> queue_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SIM_SIM_CLOCK_H_
