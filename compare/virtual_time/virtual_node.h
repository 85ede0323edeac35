#ifndef STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_NODE_H_
#define STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/job/arena.h"
#include "compare/virtual_time/compute_pool.h"
#include "compare/virtual_time/compute_time.h"
#include "compare/virtual_time/link_medium.h"
#include "compare/virtual_time/problem.h"
#include "proto/record.pb.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/client/straggler.h"
#include "worker/exchange/core/exchange.h"

namespace strata::compare {

class VirtualNode;

// Is notified of what nodes do.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // The node's arena holds all weights of `step`, whose computation has not begun. Called after the
  // last step as well, if its answers carry weights.
  virtual void OnWeights(VirtualNode* node, uint64_t step) = 0;
  // A rank has made a step.
  virtual void OnStep(uint32_t rank, const StepResult& result) = 0;
  // The job's final weights are in the node's arena.
  virtual void OnFinished(VirtualNode* node) = 0;
  // The job cannot go on; one line.
  virtual void OnFailed(const absl::Status& why) = 0;
};

// One node of a job: its ranks, which walk through their steps as a trainer does (wait for the
// weights of each layer in the order of forward, publish gradients in the order of backward), and
// its aggregator with the job's exchange, joined by plain memory. What a rank computes is computed
// on a pool, at some time between the landing of the step's last weights and the rank's first
// publication: meanwhile weights stay as they are.
//
// Threads: one, besides the pool's.
class VirtualNode final : private worker::ExchangeNode {
 public:
  struct Options {
    proto::JobRecord record;
    uint32_t node = 0;  // logical
    uint32_t host = 0;
    std::string listen;                // of a ring; empty: nowhere
    std::vector<ComputeTime> compute;  // by local rank
    double forward_share = 1.0 / 3;    // of it
    double aggregation_bytes_per_s = 1e9;
  };

  // All outlive it. Errors: of CreateExchange.
  static absl::StatusOr<std::unique_ptr<VirtualNode>> Create(const Options& options,
                                                             transport::SimClock* clock,
                                                             transport::SimNetwork* network,
                                                             ComputePool* pool, Problem* problem,
                                                             NodeObserver* observer);
  ~VirtualNode() override;

  void Start();

  uint32_t node() const { return options_.node; }
  uint64_t steps_landed() const { return landed_step_; }
  float* weights() { return weights_.data(); }
  absl::Span<const float> arena() const { return weights_; }
  const RankCompute& rank(uint32_t local_rank) const { return *ranks_[local_rank].compute; }
  const worker::ExchangeCounters& counters() const { return exchange_->counters(); }
  // Sums over all its ranks, until the end of their last step.
  absl::Duration waited() const { return waited_; }
  absl::Duration stepped() const { return stepped_; }

 private:
  struct Rank {
    std::unique_ptr<RankCompute> compute;
    std::unique_ptr<client::StepBook> book;
    std::unique_ptr<Straggler> straggler;
    uint64_t step = 0;
    uint32_t stage = 0;                // of forward, then of backward
    bool waits = false;                // for weights of the stage
    absl::Time waits_since, began;     // the wait; training
    absl::Duration forward, backward;  // time of this step's
    absl::Duration computed;           // since the last delay
    StepResult result;                 // of this step
  };

  VirtualNode(const Options& options, transport::SimClock* clock, transport::SimNetwork* network,
              ComputePool* pool, Problem* problem, NodeObserver* observer);
  absl::Status Join(transport::SimNetwork* network);

  Bytes FirstWeights(ChunkId chunk) override;
  Sum TakeSum(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) override;
  absl::Status AddToWeights(ChunkId chunk, uint32_t first_element,
                            const numerics::CheckedPayload& delta) override;
  absl::Status Landed(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeFirstWeights(ChunkId chunk, const Bytes& weights) override {
    return TakeWeights(chunk, 0, weights);
  }
  absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) override;

  // The aggregator. Its one thread moves the bytes before it does anything else.
  void Turn();
  void AfterMoving(uint64_t bytes, transport::SimClock::Call call);
  void BeginTraining();
  void BeginComputing();
  void Show(ChunkId chunk);
  void Fail(const absl::Status& status);

  // Ranks, by local number.
  void BeginStep(uint32_t r);
  void Forward(uint32_t r);
  // Returns the tensors of a stage in the order in which backward publishes them; the last stage
  // begins with those of batch normalisation.
  std::vector<int> StageTensors(const StepStage& stage) const;
  bool IsShown(const StepStage& stage, uint64_t step) const;
  void EndForward(uint32_t r);
  void Backward(uint32_t r);
  void Publish(uint32_t r, const StepStage& stage);
  void FinishStep(uint32_t r);

  const Options options_;
  const proto::LogicalNode self_;
  transport::SimClock* const clock_;
  ComputePool* const pool_;
  Problem* const problem_;
  NodeObserver* const observer_;
  const ChunkMap map_;
  worker::AggregatorCore core_;
  BufferPool buffers_;
  std::vector<float> weights_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<uint64_t>> ready_;  // by chunk and rank: steps published
  std::vector<uint64_t> complete_;            // by rank: steps of which all is published
  std::vector<uint64_t> shown_;               // by chunk: ranks may begin steps below
  // How many chunks have the weights of the step that all have not, and which that is: in the
  // arena, and for ranks to see.
  uint32_t landed_ahead_ = 0, shown_ahead_ = 0;
  uint64_t landed_step_ = 0, shown_step_ = 0;
  absl::Time aggregator_free_;
  std::vector<ChunkId> complete_chunks_;  // scratch
  std::vector<const float*> inputs_;      // scratch, by rank
  bool training_ = false, ended_ = false;
  absl::Duration waited_, stepped_;
  std::unique_ptr<worker::Exchange> exchange_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_NODE_H_
