#ifndef STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_

#include "worker/exchange/peerless_exchange.h"

namespace strata::worker {

// exchange: NCCL: ranks add up among themselves what they have on their devices. No chunk is ever
// submitted.
class RanksExchange final : public PeerlessExchange {
 public:
  using PeerlessExchange::PeerlessExchange;

  absl::Status Submit(ChunkId) override { return absl::OkStatus(); }
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_
