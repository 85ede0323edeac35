#ifndef STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_CLOCK_H_
#define STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_CLOCK_H_

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/transport/sim/event_queue.h"

namespace strata::compare {

// Time that passes from event to event. Events at the same time come in the order of their adding,
// so that a run is the same each time.
//
// Threads: one.
class VirtualClock final : public ClockInterface {
 public:
  using Call = std::function<void()>;
  // What takes longer takes so long.
  static absl::Duration Most() { return absl::Hours(24 * 365); }

  absl::Time Now() const override { return queue_.now(); }
  double Seconds() const { return absl::ToDoubleSeconds(Now() - absl::UnixEpoch()); }

  void After(absl::Duration delay, Call call) {
    queue_.Add(std::min(delay, Most()), std::move(call));
  }
  void At(absl::Time time, Call call) { After(time - Now(), std::move(call)); }
  // Moves on to the next event; false: there is none.
  bool RunOne() {
    if (queue_.empty()) return false;
    queue_.Take()();
    return true;
  }

 private:
  transport::EventQueue<Call> queue_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_CLOCK_H_
