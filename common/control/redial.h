#ifndef STRATA_COMMON_CONTROL_REDIAL_H_
#define STRATA_COMMON_CONTROL_REDIAL_H_

#include <random>

#include "absl/time/time.h"

namespace strata::control {

// How long each part of an attempt to connect may take.
struct DialLimits {
  absl::Duration connect;    // TCP's
  absl::Duration handshake;  // TLS and HTTP/2, once the TCP connection is open
};

// Decides when a session that has lost its connection tries again, and how long each try may take.
// When a coordinator restarts, many sessions lose their connections at once: so pauses grow with
// the time disconnected and are random, and no session gives up a handshake that a busy coordinator
// may still finish.
class Redial {
 public:
  explicit Redial(absl::Time now) : broken_at_(now) {}

  // The connection was up until now.
  void OnBroken(absl::Time now) { broken_at_ = now; }
  absl::Duration Away(absl::Time now) const { return now - broken_at_; }

  DialLimits Limits(absl::Time now) const;
  // Returns the pause before the next try. `mean_min`: a lower bound of its mean while only
  // standbys answer, because many tries would only cost them handshakes.
  absl::Duration Pause(absl::Time now, absl::Duration mean_min = absl::ZeroDuration());

 private:
  absl::Time broken_at_;
  std::minstd_rand random_{std::random_device()()};
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_REDIAL_H_
