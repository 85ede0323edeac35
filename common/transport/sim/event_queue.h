#ifndef STRATA_COMMON_TRANSPORT_SIM_EVENT_QUEUE_H_
#define STRATA_COMMON_TRANSPORT_SIM_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/require.h"

namespace strata::transport {

// What is to happen, in the order of time; at the same time in the order of adding. Virtual time is
// that of the event taken last.
template <typename What>
class EventQueue {
 public:
  absl::Time now() const { return absl::UnixEpoch() + absl::Nanoseconds(now_ns_); }

  void Add(absl::Duration delay, What what) {
    // Rounded up: what is called too early waits again, for ever.
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

  // Moves time on to the next event. REQUIRES: !empty().
  What Take() {
    STRATA_REQUIRE(!empty());
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Entry entry = heap_.back();
    heap_.pop_back();
    now_ns_ = std::max(now_ns_, entry.at_ns);
    free_.push_back(entry.slot);
    return std::exchange(slots_[entry.slot], What());
  }
  // Lets time pass. REQUIRES: no event is due before.
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

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SIM_EVENT_QUEUE_H_
