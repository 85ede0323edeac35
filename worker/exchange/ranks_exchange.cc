#include "worker/exchange/ranks_exchange.h"

#include <utility>

#include "worker/exchange/await_wake.h"

namespace strata::worker {

absl::Status RanksExchange::Poll(absl::Duration timeout) {
  if (!std::exchange(begins_, false)) AwaitWake(wake_fd_, timeout);
  return absl::OkStatus();
}

}  // namespace strata::worker
