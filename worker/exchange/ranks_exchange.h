#ifndef STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_

#include <cstdint>

#include "worker/exchange/peerless_exchange.h"

namespace strata::worker {

// exchange: NCCL: ranks add up among themselves what they have on their devices. No chunk is ever
// submitted.
class RanksExchange final : public PeerlessExchange {
 public:
  // `first_step`: that the job goes on with, or 0.
  RanksExchange(int wake_fd, uint64_t first_step)
      : PeerlessExchange(wake_fd), first_step_(first_step) {}

  absl::Status Submit(ChunkId) override { return absl::OkStatus(); }
  uint64_t first_clock() const override { return first_step_; }

 private:
  const uint64_t first_step_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_
