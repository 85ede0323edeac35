#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_NODE_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/buffer_pool.h"
#include "common/job/arena.h"
#include "common/os/event_loop.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "proto/processes.pb.h"
#include "tests/sim/check/payload.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/view_gate.h"
#include "worker/exchange/core/exchange.h"

namespace strata::sim {

class World;

// One process of one node of a job: its aggregator and ranks, joined by plain vectors instead of
// shared memory. The ranks make their steps as a trainer does: they wait for the weights of each
// chunk in forward order, then publish each chunk in backward order.
class SimNode final : public worker::ExchangeNode {
 public:
  struct Options {
    uint32_t host = 0;
    uint32_t node = 0;
    uint32_t incarnation = 1;
    uint32_t variant = 0;  // of the gradients
    // Called with the number of steps that its ranks have made.
    std::function<void(uint64_t steps)> on_finished;
    std::function<void(const std::string& reason)> on_failed;
    // The node begins no clock from `from_clock` on before it is told of the change.
    std::function<void(uint32_t number, uint64_t from_clock)> on_promised;
    // The answer to StopRing.
    std::function<void(const proto::RingStopped& stopped)> on_ring_stopped;
  };

  // `record` with placement. Starts to train.
  SimNode(World* world, const proto::JobRecord& record, const Options& options);

  // Returns the job of the node whose endpoint has this name; 0: it is no node's.
  static uint32_t JobOf(const std::string& endpoint);

  // The node's next process begins. This one does not know that and continues; what it is told no
  // longer counts.
  void Replace() { replaced_ = true; }
  // Does the same as the agent. A paused process is told when it continues.
  void MoveShard(const proto::MoveShard& move);
  void ProposeView(uint32_t number);
  void ChangeView(const proto::ViewChange& change);
  void StopRing(uint32_t number);
  void FormRing(const proto::FormRing& forming);
  // Pauses the process.
  void Freeze(absl::Duration pause);

  Bytes FirstWeights(ChunkId chunk) override;
  absl::Status TakeFirstWeights(ChunkId chunk, const Bytes& weights) override;
  Sum TakeSum(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) override;
  absl::Status AddToWeights(ChunkId chunk, uint32_t first_element,
                            const numerics::CheckedPayload& delta) override;
  absl::Status Landed(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) override;

 private:
  struct Rank {
    uint64_t step = 0;
    uint64_t told = 0;       // number of steps whose nodes it knows
    uint32_t waited = 0;     // chunks whose weights have arrived in this step
    uint32_t published = 0;  // chunks published in this step
    bool asleep = true;      // waits for weights
    bool held = false;       // the nodes of its step are not known
    bool scheduled = false;
    bool left = false;
    std::vector<uint32_t> order;  // order of publishing
  };

  // Returns true if another process has replaced it, here or on another worker.
  bool is_replaced() const;
  // Returns true if the node continues after a call of its exchange; otherwise it has ended with
  // the call's error.
  bool Goes(const absl::Status& status);
  // One turn of the aggregator's loop.
  void Turn();
  void TakeMoves();
  void Begin();
  void TakeViews();
  void TakeView(const proto::ViewChange& change);
  void Promise();
  void TakeRings();
  void TakeStop(uint32_t number);
  void TakeForming(const proto::FormRing& forming);
  // As in the aggregator: ranks are told of no step from `until` on. Returns the largest number of
  // steps that any of them has been told of.
  uint64_t Close();
  // Returns the step after the ranks' last one.
  uint64_t End() const;
  // Returns true if the rank may begin its step; otherwise it asks again.
  bool MayBegin(uint32_t rank);
  void LeaveRank(uint32_t rank);
  void Advance();
  void WakeRank(uint32_t rank, absl::Duration delay);
  void RankTurn(uint32_t rank);
  void Publish(uint32_t rank);
  void WriteGradient(uint32_t rank, ChunkId chunk);
  void FinishStep(uint32_t rank);
  void BeginStep(uint32_t rank);

  World* const world_;
  const Options options_;
  const uint32_t job_;
  const proto::LogicalNode self_;
  const uint64_t clocks_;
  const Payload payload_;
  const ChunkMap map_;
  worker::AggregatorCore core_;
  BufferPool pool_;
  uint32_t samples_ = 0;  // of all ranks
  std::vector<Rank> ranks_;
  std::vector<std::vector<uint64_t>> ready_;                // by chunk and rank: as NodeMemory's
  std::vector<std::vector<std::vector<float>>> gradients_;  // by chunk and rank
  std::vector<uint64_t> consumed_, landed_;                 // by chunk
  std::vector<uint64_t> complete_;                          // by rank
  std::vector<std::vector<float>> weights_;                 // by chunk
  std::vector<const float*> inputs_;                        // scratch, by rank
  bool stopped_ = false, replaced_ = false;
  bool training_ = false, finishing_ = false, released_ = false;
  std::vector<worker::ShardMove> moves_;  // that it has not been told of
  worker::ViewGate gate_;
  std::vector<proto::ViewChange> views_;         // likewise
  uint32_t proposed_ = 0;                        // the number to promise; 0: none
  std::vector<proto::AgentMessage> ring_words_;  // likewise, of rings
  std::unique_ptr<worker::Exchange> exchange_;
  OwnedTimers<transport::SimNetwork> timers_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_NODE_H_
