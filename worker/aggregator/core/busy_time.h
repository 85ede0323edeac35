#ifndef STRATA_WORKER_AGGREGATOR_CORE_BUSY_TIME_H_
#define STRATA_WORKER_AGGREGATOR_CORE_BUSY_TIME_H_

#include "absl/time/time.h"

namespace strata::worker {

// For how long something has been under way, all in all.
//
// Threads: one.
class BusyTime {
 public:
  // How it is from `now` on. REQUIRES: `now` does not go back.
  void Set(bool busy, absl::Time now) {
    if (busy == busy_) return;
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
