#include "server/coordinator/checkpoints/restart_policy.h"

#include <algorithm>
#include <cstdint>

namespace strata::server {
namespace {

constexpr absl::Duration kFirstDelay = absl::Milliseconds(500);
constexpr absl::Duration kLongestDelay = absl::Minutes(1);

}  // namespace

bool MayGoOn(const proto::Job& job, const proto::JobStatus& status, bool has_trained,
             absl::Time now) {
  if (!job.has_restart() || !has_trained) return false;
  const proto::Restart& restart = job.restart();
  const absl::Time since = now - absl::Hours(restart.within_hours());
  const auto& restarts = status.restarts();
  const auto lately = std::count_if(restarts.begin(), restarts.end(), [&](const auto& one) {
    return absl::FromUnixMillis(one.failed_ms()) > since;
  });
  return lately < restart.attempts();
}

absl::Duration DelayBeforeGoingOn(const proto::JobStatus& status) {
  absl::Duration delay = kFirstDelay;
  // Restarts that went on from where the job would go on from now.
  uint64_t from = status.checkpoints().complete() > 0 ? status.checkpoints().newest_step() : 0;
  for (int i = status.restarts_size() - 1; i >= 0 && status.restarts(i).step() >= from; --i) {
    delay = std::min(2 * delay, kLongestDelay);
  }
  return delay;
}

}  // namespace strata::server
