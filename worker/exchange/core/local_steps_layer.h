#ifndef STRATA_WORKER_EXCHANGE_CORE_LOCAL_STEPS_LAYER_H_
#define STRATA_WORKER_EXCHANGE_CORE_LOCAL_STEPS_LAYER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/buffer_pool.h"
#include "common/image/node_image.h"
#include "common/job/arena.h"
#include "common/job/trace_log.h"
#include "kernels/kernels.h"
#include "numerics/weight_state.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/exchange_layer.h"

namespace strata::worker {

// Local steps (`lazy { local_steps: H }`): the node applies the optimizer to weights of its own,
// and every H steps the core below exchanges by how much they have become smaller: local SGD (Stich
// 2019), DiLoCo (Douillard et al. 2023). The result replaces the node's weights; the optimizer's
// state stays. Clocks below are rounds of H steps; the last one may have fewer.
//
// A node pushes its change times its number of samples, just as a gradient sum is a mean times
// samples: dividing by all samples gives the mean over the samples of all nodes.
//
// Elastic averaging (`async { elastic { ... } }`, Zhang et al. 2015) works the same way: every H
// steps the node pushes its weights x, and gets the center c' = c + a (x - c), which they have
// pulled towards them. x - c is (x - c') / (1 - a), so x -= a / (1 - a) (x - c').
//
// With `significance` (Gaia, Hsieh et al. 2017) only elements that have changed by more than a
// share of the weight's magnitude are pushed, and the rest stays in the node's own weights until it
// has grown; if more than half of the elements have, everything is pushed. The remainder goes with
// the steps that do not fill a round, or in a round of its own.
//
// A process that replaces one that died begins with a round whose weights come from below. The
// optimizer's state died with the other process and is reset; the schedule continues.
//
// A pure state machine, see ExchangeStage.
class LocalStepsLayer final : public ExchangeLayer {
 public:
  // REQUIRES: a valid record from which `below` was made, with local steps. `kernels` outlives it.
  LocalStepsLayer(ExchangeStage* below, const CoreOptions& options,
                  const kernels::Kernels& kernels);

  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override;
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override;
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override;

  // Steps of the node, not rounds.
  uint64_t first_clock() const override { return steps_ * ExchangeLayer::first_clock(); }
  void AddToImage(ChunkId chunk, NodeChunkImage* image) override;
  absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) override;

  // Returns the chunk's state. Weights are shared; the optimizer's state is copied.
  // REQUIRES: it is between two rounds, seeded.
  LocalStepsImage Image(ChunkId chunk) const;
  // Continues from an image instead of first weights; everything is copied. Errors: InvalidArgument
  // naming what differs from this job (elements, vectors of state, steps of a round).
  // REQUIRES: not seeded, finite.
  absl::Status Restore(ChunkId chunk, const LocalStepsImage& image);

  size_t memory_bytes() const override {
    return pool_.allocated_bytes() + changes_.allocated_bytes();
  }

 protected:
  absl::Status FromBelow(NodeAction action, absl::Time now, CoreActions* actions) override;

 private:
  struct Chunk {
    std::unique_ptr<numerics::WeightState> local;
    Bytes start;                    // the base of the change: the weights of the last round
    uint64_t clock = 0;             // steps made
    uint64_t steps_before = 0;      // by a process that died
    uint32_t most_samples = 0;      // in any step; assumed for each of steps_before
    uint32_t samples = 0;           // in the change
    uint32_t last_samples = 0;      // in the previous round
    float rate = 0;                 // of the last step, compared with other nodes
    std::shared_ptr<float> unsent;  // of the change, with zeros elsewhere; null: nothing
    bool waits = false;             // the node waits for the round's weights
    // An answer whose parts have not all come.
    std::shared_ptr<float> next;
  };

  // Called again if a replacement process finds that it must begin with an earlier round.
  void Seed(ChunkId id, const Bytes& first_weights);
  absl::Status Step(ChunkId id, const Bytes& sum, const StepFacts& step, absl::Time now,
                    CoreActions* actions);
  Bytes MakeChange(ChunkId id, uint64_t round);
  // Sets insignificant elements to 0 and keeps them as unsent.
  void KeepInsignificant(Chunk* chunk, uint64_t round, float* change, uint32_t count);
  absl::Status Take(NodeAction action, absl::Time now, CoreActions* actions);
  // Makes the node's next weights from `next`, the center's `count` weights from `first` of the
  // chunk.
  void ApplyElasticPull(const Chunk& chunk, uint32_t first, size_t count, float* next) const;

  const NodeId node_;
  TraceLog* const trace_;  // null: none
  const kernels::Kernels& kernels_;
  const ChunkMap map_;
  const uint64_t steps_;      // steps per round
  const float elastic_pull_;  // a / (1 - a) of elastic averaging; 0: another mode
  const float significance_;  // threshold of the first round; 0: all is pushed
  uint64_t last_round_;       // the round that pushes the remainder
  const NodeShare share_;
  const numerics::UpdateRule rule_;  // of the node's own steps
  BufferPool pool_;
  BufferPool changes_;  // where peers on the host can read them
  std::vector<Chunk> chunks_;
  bool is_restored_ = false;  // resumed from a checkpoint
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_LOCAL_STEPS_LAYER_H_
