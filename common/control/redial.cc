#include "common/control/redial.h"

#include <algorithm>

namespace strata::control {
namespace {

// Just after a break, and at first, tries are frequent and short: TCP retransmits a SYN only after
// a second, and a short break should cost little more than its own length.
constexpr absl::Duration kHurry = absl::Seconds(4);
constexpr absl::Duration kHurriedConnect = absl::Milliseconds(500);
constexpr absl::Duration kConnect = absl::Seconds(5);

// Time for four round trips and a busy coordinator.
constexpr absl::Duration kHandshakeMin = absl::Seconds(3);
constexpr absl::Duration kHandshakeMax = absl::Seconds(30);

constexpr absl::Duration kPauseMin = absl::Milliseconds(50);
constexpr absl::Duration kPauseMax = absl::Seconds(1);
// The mean pause is this fraction of the time disconnected.
constexpr int kPausePart = 8;

}  // namespace

DialLimits Redial::Limits(absl::Time now) const {
  const absl::Duration away = Away(now);
  return {.connect = away < kHurry ? kHurriedConnect : kConnect,
          .handshake = std::clamp(away, kHandshakeMin, kHandshakeMax)};
}

absl::Duration Redial::Pause(absl::Time now, absl::Duration mean_min) {
  const absl::Duration mean =
      std::max(mean_min, std::clamp(Away(now) / kPausePart, kPauseMin, kPauseMax));
  return mean * std::uniform_real_distribution<double>(0.5, 1.5)(random_);
}

}  // namespace strata::control
