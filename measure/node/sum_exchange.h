#ifndef STRATA_MEASURE_NODE_SUM_EXCHANGE_H_
#define STRATA_MEASURE_NODE_SUM_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/aggregator/host/node_arenas.h"
#include "worker/exchange/core/exchange.h"

namespace strata::bench {

// An exchange with nobody: the sum over the node's ranks is what they are shown as the next
// weights. What it takes is the node level's alone.
//
// Threads: one.
class SumExchange final : public worker::Exchange {
 public:
  // `arenas` outlives this. Poll also returns when `wake_fd` is readable.
  SumExchange(worker::NodeArenas* arenas, int wake_fd) : arenas_(arenas), wake_fd_(wake_fd) {}

  absl::Status Start() override {
    phase_ = Phase::kTraining;
    return absl::OkStatus();
  }
  absl::Status Submit(ChunkId chunk) override {
    submitted_.push_back(chunk);
    return absl::OkStatus();
  }
  absl::Status Finish(uint64_t) override {
    phase_ = Phase::kFinishing;
    return absl::OkStatus();
  }
  absl::Status Poll(absl::Duration timeout) override;
  Phase phase() const override { return phase_; }
  const worker::ExchangeCounters& counters() const override { return counters_; }
  size_t memory_bytes() const override { return 0; }
  void AddActivity(proto::NodeActivity* activity) const override {}

 private:
  uint64_t& ClockOf(ChunkId chunk);  // the next

  worker::NodeArenas* const arenas_;
  const int wake_fd_;
  Phase phase_ = Phase::kSeeding;
  std::vector<ChunkId> submitted_;  // and not summed
  std::vector<uint64_t> clocks_;    // by chunk
  worker::ExchangeCounters counters_;
};

}  // namespace strata::bench

#endif  // STRATA_MEASURE_NODE_SUM_EXCHANGE_H_
