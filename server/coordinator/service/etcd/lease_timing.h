#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_LEASE_TIMING_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_LEASE_TIMING_H_

#include <algorithm>

#include "absl/time/time.h"

namespace strata::server {

// When a lease is to be refreshed, and until when its holder may believe in it. etcd counts the TTL
// from a refresh's arrival, the holder from before it was sent, and it stops a sixth of the TTL
// earlier: clocks that run at rates up to a sixth apart do not make it believe for too long.
//
// Times are of a clock that never goes back. Pure.
class LeaseTiming {
 public:
  static constexpr int kRefreshes = 3;  // in one TTL
  static constexpr int kMargin = 6;     // of the TTL, which the holder gives away

  // `sent`: when the request was sent that etcd granted `ttl` for.
  LeaseTiming(absl::Duration ttl, absl::Time sent) { Refreshed(ttl, sent); }

  void Refreshed(absl::Duration ttl, absl::Time sent) {
    ttl_ = ttl;
    end_ = sent + ttl - ttl / kMargin;
    next_refresh_ = sent + ttl / kRefreshes;
  }
  // A refresh was not answered: the next one comes soon.
  void Failed(absl::Time now) { next_refresh_ = now + ttl_ / 30; }

  absl::Time next_refresh() const { return next_refresh_; }
  // How long a refresh that is sent now may take, so that there is time for another.
  absl::Duration PatienceAt(absl::Time now) const {
    return std::max(absl::ZeroDuration(), std::min(ttl_ / kRefreshes, end_ - now));
  }
  absl::Time end() const { return end_; }
  bool IsOver(absl::Time now) const { return now >= end_; }

 private:
  absl::Duration ttl_;
  absl::Time end_;
  absl::Time next_refresh_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_LEASE_TIMING_H_
