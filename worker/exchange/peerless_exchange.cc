#include "worker/exchange/peerless_exchange.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace strata::worker {

absl::Status PeerlessExchange::Poll(absl::Duration timeout) {
  if (std::exchange(begins_, false)) return absl::OkStatus();
  pollfd wake{wake_fd_, POLLIN, 0};
  const int64_t ms = std::max<int64_t>(0, absl::ToInt64Milliseconds(timeout));
  poll(&wake, 1, static_cast<int>(std::min<int64_t>(ms, 1000)));
  return absl::OkStatus();
}

}  // namespace strata::worker
