#ifndef STRATA_COMMON_CLOCK_H_
#define STRATA_COMMON_CLOCK_H_

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/require.h"

namespace strata {

// The time source of components, so that tests can control it. Thread-safe.
class ClockInterface {
 public:
  virtual ~ClockInterface() = default;
  // Never goes back.
  virtual absl::Time Now() const = 0;
};

// The wall clock at construction, advanced by the monotonic clock: setting the host's time does not
// affect timeouts.
class RealClock : public ClockInterface {
 public:
  absl::Time Now() const override {
    return start_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_);
  }

 private:
  const absl::Time start_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();
};

// Advances only when told to.
class FakeClock : public ClockInterface {
 public:
  explicit FakeClock(absl::Time now = absl::UnixEpoch()) : now_(now) {}

  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  // REQUIRES: by >= 0.
  void Advance(absl::Duration by) {
    STRATA_REQUIRE(by >= absl::ZeroDuration());
    absl::MutexLock lock(&mutex_);
    now_ += by;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata

#endif  // STRATA_COMMON_CLOCK_H_
