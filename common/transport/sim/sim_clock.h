#ifndef STRATA_COMMON_TRANSPORT_SIM_SIM_CLOCK_H_
#define STRATA_COMMON_TRANSPORT_SIM_SIM_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/require.h"

namespace strata::transport {

// Pending events in the order of time, then of insertion. Virtual time is that of the event taken
// last.
template <typename What>
class EventQueue {
 public:
  absl::Time now() const { return absl::UnixEpoch() + absl::Nanoseconds(now_ns_); }

  void Add(absl::Duration delay, What what) {
    // Rounded up: a callback that is too early would wait again, forever.
    const int64_t delay_ns = absl::ToInt64Nanoseconds(absl::Ceil(delay, absl::Nanoseconds(1)));
    const int64_t at_ns = now_ns_ + std::max<int64_t>(0, delay_ns);
    uint32_t slot;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(slots_.size());
      slots_.push_back(std::move(what));
    } else {
      slot = free_.back();
      free_.pop_back();
      slots_[slot] = std::move(what);
    }
    heap_.push_back({at_ns, next_++, slot});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  bool empty() const { return heap_.empty(); }
  absl::Time next_at() const { return absl::UnixEpoch() + absl::Nanoseconds(heap_[0].at_ns); }

  // Advances the time to the next event. REQUIRES: !empty().
  What Take() {
    STRATA_REQUIRE(!empty());
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Entry entry = heap_.back();
    heap_.pop_back();
    now_ns_ = std::max(now_ns_, entry.at_ns);
    free_.push_back(entry.slot);
    return std::exchange(slots_[entry.slot], What());
  }
  // Advances the time. REQUIRES: no event is due before.
  void AdvanceTo(absl::Time time) {
    STRATA_REQUIRE(empty() || time <= next_at());
    now_ns_ = std::max(now_ns_, absl::ToInt64Nanoseconds(time - absl::UnixEpoch()));
  }

 private:
  struct Entry {
    int64_t at_ns;
    uint64_t number;
    uint32_t slot;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.number > b.number;
  }

  int64_t now_ns_ = 0;
  uint64_t next_ = 0;
  std::vector<Entry> heap_;
  std::vector<What> slots_;  // by Entry::slot: the heap moves small entries only
  std::vector<uint32_t> free_;
};

// A clock that advances from event to event. Events at the same time come in the order of
// insertion, so every run is the same.
//
// Threads: one.
class SimClock final : public ClockInterface {
 public:
  using Call = std::function<void()>;

  // The maximum delay; longer ones are truncated to it.
  static absl::Duration DelayMax() { return absl::Hours(24 * 365); }

  absl::Time Now() const override { return queue_.now(); }
  double Seconds() const { return absl::ToDoubleSeconds(Now() - absl::UnixEpoch()); }

  // Calls `call` then. Never cancelled.
  void After(absl::Duration delay, Call call) {
    queue_.Add(std::min(delay, DelayMax()), std::move(call));
  }
  void At(absl::Time time, Call call) { After(time - Now(), std::move(call)); }

  // Returns the time of the next event; InfiniteFuture: there is none.
  absl::Time next_at() const { return queue_.empty() ? absl::InfiniteFuture() : queue_.next_at(); }
  // Advances to the next event; returns false if there is none.
  bool RunOne() {
    if (queue_.empty()) return false;
    queue_.Take()();
    return true;
  }
  // Advances the time. REQUIRES: no event is due before.
  void AdvanceTo(absl::Time time) {
    STRATA_REQUIRE(time <= next_at());
    queue_.AdvanceTo(time);
  }

 private:
  EventQueue<Call> queue_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SIM_SIM_CLOCK_H_
