#ifndef STRATA_WORKER_EXCHANGE_CORE_PEERLESS_CORE_H_
#define STRATA_WORKER_EXCHANGE_CORE_PEERLESS_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/clock.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// The common part of exchanges without other nodes: training begins at once and ends when the
// node's ranks say so.
class PeerlessCore : public ExchangeCore {
 public:
  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) override;
  absl::Time deadline() const override {
    return begins_ ? absl::InfinitePast() : absl::InfiniteFuture();
  }
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override {
    phase_ = Phase::kFinished;
    return absl::OkStatus();
  }
  absl::Status OnPayload(const NodeAction&, Bytes, const StepFacts&, absl::Time,
                         CoreActions*) final {
    return absl::OkStatus();
  }
  Phase phase() const final { return phase_; }
  const ExchangeCounters& counters() const final { return counters_; }
  size_t memory_bytes() const final { return 0; }
  const std::string& address(LinkId) const final { return nowhere_; }
  void AddActivity(absl::Time, proto::NodeActivity*) const final {}

 protected:
  Phase phase_ = Phase::kSeeding;
  ExchangeCounters counters_;

 private:
  bool begins_ = false;  // an event is pending: the next Poll does not wait
  const std::string nowhere_;
};

// exchange: NCCL: ranks sum their gradients on their devices among themselves. No chunk is ever
// submitted.
class RanksCore final : public PeerlessCore {
 public:
  // `first_step`: the step at which the job resumes, or 0.
  explicit RanksCore(uint64_t first_step) : first_step_(first_step) {}

  absl::Status Submit(ChunkId, absl::Time, CoreActions*) override { return absl::OkStatus(); }
  uint64_t first_clock() const override { return first_step_; }

 private:
  const uint64_t first_step_;
};

// An exchange without a network, whose Poll waits only for `wake_fd`. `clock` outlives it.
// REQUIRES: the core makes no requests to the node.
std::unique_ptr<Exchange> WithoutPeers(std::unique_ptr<PeerlessCore> core, int wake_fd,
                                       const ClockInterface* clock);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_PEERLESS_CORE_H_
