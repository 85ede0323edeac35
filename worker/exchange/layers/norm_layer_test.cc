#include "worker/exchange/layers/norm_layer.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "worker/exchange/testing/all_reduce_world.h"

namespace strata::worker {
namespace {

// A stage that does what it is told.
class Below final : public ExchangeStage {
 public:
  absl::Status Submit(ChunkId, absl::Time, CoreActions*) override { return absl::OkStatus(); }
  absl::Status Finish(uint64_t, absl::Time, CoreActions*) override { return absl::OkStatus(); }
  absl::Status OnPayload(const NodeAction&, Bytes, const StepFacts&, absl::Time,
                         CoreActions*) override {
    return absl::OkStatus();
  }
};

Bytes One(float value) {
  const auto one = std::make_shared<float>(value);
  return AsBytes(one, 1);
}

// SGD whose rate rises by 1 with each 16 samples of the job, of which the node has an eighth.
TEST(NormLayer, AStepCountsTheSamplesOfThoseWhoseSumsAreInItsMean) {
  AllReduceWorld::Options options;
  options.nodes = 8;
  options.elements = options.chunk_elements = 1;
  options.job =
      "on_loss: DROP ranks_per_node: 1 ranks: 8 epochs: 1000 optimizer { sgd {} } "
      "schedule { base_lr: 1000 warmup_epochs: 1000 }";
  CoreOptions core;
  core.record = AllReduceWorld::RecordOf(options);
  core.record.set_samples_per_epoch(16);
  Below below;
  NormLayer layer(&below, core, kernels::Cpu());
  CoreActions actions;
  const absl::Time now;
  EXPECT_TRUE(
      layer.OnPayload({.kind = NodeAction::Kind::kFirstWeights}, One(0), {}, now, &actions).ok());
  float before = 0;
  // Returns the rate of a step.
  const auto rate = [&](uint64_t clock, uint32_t ranks) {
    EXPECT_TRUE(layer
                    .OnPayload({.kind = NodeAction::Kind::kSum, .clock = clock}, One(0),
                               {.samples = 2}, now, &actions)
                    .ok());
    CoreActions from, up;
    from.node.push_back({.kind = NodeAction::Kind::kDeliver,
                         .clock = clock,
                         .lands = true,
                         .ranks = ranks,
                         .weights = One(-1)});
    EXPECT_TRUE(layer.Filter(std::move(from), now, &up).ok());
    return up.node[0].weights.floats()[0] - std::exchange(before, up.node[0].weights.floats()[0]);
  };
  const float first = rate(0, 0);
  EXPECT_NEAR(rate(1, 0) - first, 1, 1e-3) << "all: 16 samples";
  EXPECT_NEAR(rate(2, 4) - first, 1.5, 1e-3) << "half of them: 8";
  EXPECT_NEAR(rate(3, 4) - first, 2, 1e-3);
}

}  // namespace
}  // namespace strata::worker
