#include "server/coordinator/jobs/restart_policy.h"

#include <algorithm>
#include <cstdint>

namespace strata::server {
namespace {

constexpr absl::Duration kFirstDelay = absl::Milliseconds(500);
constexpr absl::Duration kLongestDelay = absl::Minutes(1);

}  // namespace

bool MayGoOn(const JobEntry& entry, absl::Time now) {
  if (!entry.job().has_restart() || !entry.stored.resume().has_trained()) return false;
  const proto::Restart& restart = entry.job().restart();
  const absl::Time since = now - absl::Hours(restart.within_hours());
  const auto& restarts = entry.stored.status().restarts();
  const auto lately = std::count_if(restarts.begin(), restarts.end(), [&](const auto& one) {
    return absl::FromUnixMillis(one.failed_ms()) > since;
  });
  return lately < restart.attempts();
}

absl::Duration DelayBeforeGoingOn(const JobEntry& entry) {
  const proto::JobStatus& status = entry.stored.status();
  absl::Duration delay = kFirstDelay;
  // Restarts that went on from where the job would go on from now.
  uint64_t from = status.checkpoints().complete() > 0 ? status.checkpoints().newest_step() : 0;
  for (int i = status.restarts_size() - 1; i >= 0 && status.restarts(i).step() >= from; --i) {
    delay = std::min(2 * delay, kLongestDelay);
  }
  return delay;
}

}  // namespace strata::server
