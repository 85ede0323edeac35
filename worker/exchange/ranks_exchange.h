#ifndef STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_

#include <cstddef>
#include <cstdint>

#include "worker/exchange/core/exchange.h"

namespace strata::worker {

// exchange: NCCL: ranks add up among themselves what they have on their devices. For the aggregator
// training begins at once and is over when its ranks say so; no chunk is ever submitted.
class RanksExchange final : public Exchange {
 public:
  // `wake_fd`: see Exchange::Poll.
  explicit RanksExchange(int wake_fd) : wake_fd_(wake_fd) {}

  absl::Status Start() override {
    phase_ = Phase::kTraining;
    begins_ = true;
    return absl::OkStatus();
  }
  absl::Status Submit(ChunkId) override { return absl::OkStatus(); }
  absl::Status Finish(uint64_t) override {
    phase_ = Phase::kFinished;
    return absl::OkStatus();
  }
  absl::Status Poll(absl::Duration timeout) override;
  Phase phase() const override { return phase_; }
  const ExchangeCounters& counters() const override { return counters_; }
  size_t memory_bytes() const override { return 0; }
  void AddActivity(proto::NodeActivity*) const override {}

 private:
  const int wake_fd_;
  Phase phase_ = Phase::kSeeding;
  bool begins_ = false;  // something has happened: the next Poll does not wait
  const ExchangeCounters counters_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_RANKS_EXCHANGE_H_
