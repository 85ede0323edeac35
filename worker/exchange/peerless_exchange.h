#ifndef STRATA_WORKER_EXCHANGE_PEERLESS_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_PEERLESS_EXCHANGE_H_

#include <cstddef>
#include <cstdint>

#include "worker/exchange/core/exchange.h"

namespace strata::worker {

// What exchanges have in common that know no other node: training begins at once and is over when
// the node's ranks say so.
//
// Threads: one.
class PeerlessExchange : public Exchange {
 public:
  // `wake_fd`: see Exchange::Poll.
  explicit PeerlessExchange(int wake_fd) : wake_fd_(wake_fd) {}

  absl::Status Start() final {
    phase_ = Phase::kTraining;
    begins_ = true;
    return absl::OkStatus();
  }
  absl::Status Finish(uint64_t) final {
    phase_ = Phase::kFinished;
    return absl::OkStatus();
  }
  absl::Status Poll(absl::Duration timeout) final;
  Phase phase() const final { return phase_; }
  const ExchangeCounters& counters() const final { return counters_; }
  size_t memory_bytes() const final { return 0; }
  void AddActivity(proto::NodeActivity*) const final {}

 private:
  const int wake_fd_;
  Phase phase_ = Phase::kSeeding;
  bool begins_ = false;  // something has happened: the next Poll does not wait
  const ExchangeCounters counters_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_PEERLESS_EXCHANGE_H_
