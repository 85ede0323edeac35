#ifndef STRATA_WORKER_TESTING_TRAINING_NODE_H_
#define STRATA_WORKER_TESTING_TRAINING_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/arena.h"
#include "common/transport/sim/sim_network.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// A node of a job on a simulated network, with the real exchange: it publishes each chunk again
// some time after its weights have landed. Fails the test if weights of a (chunk, clock) land
// twice, or out of order.
class TrainingNode final : public ExchangeNode {
 public:
  struct Options {
    CoreOptions core;
    std::string name;    // of its endpoint
    std::string listen;  // where others connect to it; empty: nowhere
    bool addresses_are_names = false;
    uint64_t clocks = 1;
    bool in_step = false;  // publishes nothing before all weights of the last step have landed
    uint32_t samples = 8;
    float rate = 0;  // given by its ranks
    // Returns whether a node in step may begin the step now; otherwise GoOn makes it ask again.
    // Null: always.
    std::function<bool(uint64_t clock)> may_begin;
    // Gets the weights with which a node in step begins each step. May be null.
    std::function<void(uint64_t clock, const std::vector<float>& weights)> on_step;
    // Element i of the arena: in the first weights, and in the node's sum.
    std::function<float(uint64_t i)> first_weight;
    std::function<float(uint64_t clock, uint64_t i)> gradient;
  };

  // `network` outlives it.
  TrainingNode(transport::SimNetwork* network, Options options);

  void Start();
  void OnShardMoved(const ShardMove& move);
  // The obstacle to the next step may be gone.
  void GoOn();
  // It leaves the job as planned before this clock. REQUIRES: in step, and that step has not begun.
  void LeaveAt(uint64_t clock);
  // See Exchange. An error of FormRing ends the node. REQUIRES: alive.
  absl::StatusOr<StoppedRing> StopRing(uint32_t number);
  void FormRing(const proto::FormRing& forming);
  // The process exits: it is killed, or has finished.
  void Kill();
  void Exit();

  bool alive() const { return exchange_ != nullptr; }
  // It has finished, failed or been killed.
  bool is_over() const;
  // OK: it continues or has finished. Aborted: it was killed.
  const absl::Status& status() const { return status_; }
  const std::vector<float>& weights() const { return weights_; }
  // Number of landed clocks, by chunk.
  const std::vector<uint64_t>& landed() const { return landed_; }
  // The weights with which the current step began, for a node in step.
  const std::vector<float>& step_weights() const { return step_weights_; }
  // The weights that training began with.
  const std::vector<float>& first_weights() const { return first_weights_; }
  // Its exchange's.
  uint64_t first_clock() const { return first_clock_; }
  NodeCuts TakeCuts() { return exchange_ ? exchange_->TakeCuts() : NodeCuts(); }
  void ReleaseCut(NodeCuts::Kind kind, uint64_t clock) {
    if (exchange_) exchange_->ReleaseCut(kind, clock);
  }
  // Chunks whose final weights were taken.
  uint32_t finals() const { return finals_; }
  ExchangeCounters counters() const { return exchange_ ? exchange_->counters() : counters_; }

  Bytes FirstWeights(ChunkId chunk) override;
  Sum TakeSum(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) override;
  absl::Status AddToWeights(ChunkId chunk, uint32_t first_element,
                            const numerics::CheckedPayload& delta) override;
  absl::Status Landed(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeFirstWeights(ChunkId chunk, const Bytes& weights) override;
  absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) override;

 private:
  Bytes Floats(ChunkId chunk, const std::function<float(uint64_t)>& at) const;
  void PublishSoon(ChunkId chunk);
  // REQUIRES: in step; all weights of earlier clocks have landed.
  void BeginStep(uint64_t clock);
  // Finishes soon if all clocks have landed.
  void FinishIfLast();
  // Handles the result of a call of the exchange; the node continues if it can.
  void Took(const absl::Status& status);
  void Poll();

  transport::SimNetwork& network_;
  Options options_;
  const ChunkMap map_;
  std::vector<float> weights_, first_weights_, step_weights_;
  std::vector<uint64_t> landed_;
  uint64_t first_clock_ = 0;
  uint32_t finals_ = 0;
  std::unique_ptr<Exchange> exchange_;
  ExchangeCounters counters_;  // set when it was killed
  absl::Status status_;
  bool began_ = false;
  std::optional<uint64_t> held_;  // the step that it may not begin yet
  int polls_after_end_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TESTING_TRAINING_NODE_H_
