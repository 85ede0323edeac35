#ifndef STRATA_WORKER_AGGREGATOR_CORE_BUSY_TIME_H_
#define STRATA_WORKER_AGGREGATOR_CORE_BUSY_TIME_H_

#include "absl/time/time.h"
#include "common/require.h"

namespace strata::worker {

// Adds up for how long something has been under way.
//
// Threads: one.
class BusyTime {
 public:
  // Whether it is under way from `now` on. REQUIRES: `now` does not go back.
  void Set(bool busy, absl::Time now) {
    if (busy == busy_) return;
    STRATA_REQUIRE(now >= since_);
    if (busy_) total_ += now - since_;
    busy_ = busy;
    since_ = now;
  }

  absl::Duration Total(absl::Time now) const { return busy_ ? total_ + (now - since_) : total_; }

 private:
  bool busy_ = false;
  absl::Time since_;
  absl::Duration total_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_BUSY_TIME_H_
