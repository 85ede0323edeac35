#ifndef STRATA_WORKER_EXCHANGE_AWAIT_WAKE_H_
#define STRATA_WORKER_EXCHANGE_AWAIT_WAKE_H_

#include <poll.h>

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace strata::worker {

// Waits until the descriptor is readable, for `timeout` or a second at most: Poll of an exchange
// that has no peers.
inline void AwaitWake(int wake_fd, absl::Duration timeout) {
  pollfd wake{wake_fd, POLLIN, 0};
  const int64_t ms = std::max<int64_t>(0, absl::ToInt64Milliseconds(timeout));
  poll(&wake, 1, static_cast<int>(std::min<int64_t>(ms, 1000)));
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_AWAIT_WAKE_H_
