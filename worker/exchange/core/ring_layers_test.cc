#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/exchange/core/norm_layer.h"
#include "worker/testing/all_reduce_world.h"

// Local steps, double buffering, LARS and clipping over an all-reduce. For servers see
// tests/exchange/modes_test, and the simulator.

namespace strata::worker {
namespace {

using World = AllReduceWorld;

constexpr double kLr = 1e-3;

World::Options Shape(uint32_t nodes, uint64_t clocks, const std::string& consistency) {
  World::Options options;
  options.nodes = nodes;
  options.clocks = clocks;
  options.job = absl::StrCat("optimizer { sgd {} } schedule { base_lr: ", kLr, " } consistency { ",
                             consistency, " }");
  options.faults.break_both = 0.01;
  options.faults.duplicate = 0.1;
  options.timing.give_up_after = absl::Hours(1);
  return options;
}

std::vector<std::vector<float>> Train(const World::Options& options) {
  World world(options);
  EXPECT_TRUE(world.Run());
  std::vector<std::vector<float>> weights;
  for (uint32_t n = 0; n < options.nodes; ++n) {
    EXPECT_EQ(world.status(n), absl::OkStatus());
    weights.push_back(world.weights(n));
  }
  return weights;
}

TEST(RingLayers, DoubleBufferingEndsWithTheBitsOfSyncWhereGradientsDoNotDependOnWeights) {
  for (const uint64_t clocks : {1, 2, 5}) {
    const auto sync = Train(Shape(3, clocks, "sync {}"));
    const auto delayed = Train(Shape(3, clocks, "preset: 'delay1'"));
    for (uint32_t n = 0; n < 3; ++n) EXPECT_EQ(delayed[n], sync[0]) << clocks << " clocks";
  }
}

// SGD on the nodes; their changes are weighted by their samples.
double Expected(const World::Options& options, uint64_t steps, double outer_lr, double momentum,
                uint64_t i) {
  double samples = 0;
  for (uint32_t n = 0; n < options.nodes; ++n) samples += World::Samples(n);
  double w = World::FirstWeight(i), b = 0, change = 0;
  for (uint64_t t = 0; t < options.clocks; ++t) {
    for (uint32_t n = 0; n < options.nodes; ++n) {
      change += kLr * World::Gradient(options.seed, n, t, i) / samples;
    }
    if ((t + 1) % steps != 0 && t + 1 != options.clocks) continue;
    b = momentum * b + change;
    w -= outer_lr * (change + momentum * b);
    change = 0;
  }
  return w;
}

void ExpectFollows(uint64_t steps, const std::string& consistency, double outer_lr,
                   double momentum) {
  const World::Options options = Shape(4, 7, consistency);
  const auto weights = Train(options);
  for (uint32_t i = 0; i < options.elements; ++i) {
    const double expected = Expected(options, steps, outer_lr, momentum, i);
    EXPECT_NEAR(weights[0][i], expected, 1e-5 * (std::abs(expected) + 100)) << consistency;
  }
  for (uint32_t n = 1; n < options.nodes; ++n) EXPECT_EQ(weights[n], weights[0]) << consistency;
}

TEST(RingLayers, LocalStepsExchangeTheMeanChangeAndALastShorterRound) {
  ExpectFollows(3, "preset: 'local(3)'", 1.0, 0.0);
  ExpectFollows(7, "preset: 'local(7)'", 1.0, 0.0);
  ExpectFollows(2, "preset: 'diloco(2)'", 0.7, 0.9);
}

double Norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

// SGD with a rate that `rate` computes from the norms of mean gradient and weights.
void ExpectUpdates(const std::string& optimizer, double tolerance,
                   const std::function<double(double gradient, double weights)>& rate) {
  World::Options options = Shape(4, 7, "sync {}");
  options.job = absl::StrCat("optimizer { ", optimizer, " schedule { base_lr: ", kLr, " }");
  const auto weights = Train(options);
  double samples = 0;
  for (uint32_t n = 0; n < options.nodes; ++n) samples += World::Samples(n);
  std::vector<double> w, mean(options.elements);
  for (uint32_t i = 0; i < options.elements; ++i) w.push_back(World::FirstWeight(i));
  for (uint64_t t = 0; t < options.clocks; ++t) {
    for (uint32_t i = 0; i < options.elements; ++i) {
      mean[i] = 0;
      for (uint32_t n = 0; n < options.nodes; ++n) {
        mean[i] += World::Gradient(options.seed, n, t, i) / samples;
      }
    }
    const double by = rate(Norm(mean), Norm(w));
    for (uint32_t i = 0; i < options.elements; ++i) w[i] -= by * mean[i];
  }
  for (uint32_t i = 0; i < options.elements; ++i) {
    EXPECT_NEAR(weights[0][i], w[i], tolerance) << optimizer << ' ' << i;
  }
  for (uint32_t n = 1; n < options.nodes; ++n) EXPECT_EQ(weights[n], weights[0]) << optimizer;
}

TEST(RingLayers, TheMeanGradientIsClippedByTheNormOfAllOfIt) {
  constexpr double kLimit = 1000;
  double shortest = 2;
  const auto clipped = [&](double gradient, double) {
    shortest = std::min(shortest, kLimit / gradient);
    return kLr * std::min(1.0, kLimit / gradient);
  };
  ExpectUpdates("sgd {} clip_norm: 1000 }", 2e-5, clipped);
  EXPECT_LT(shortest, 1);
  // If it encodes, nodes receive the change of the mean.
  ExpectUpdates("sgd {} clip_norm: 1000 } push { codec: FP16 }", 5e-3, clipped);
}

TEST(RingLayers, LarsMovesByAShareOfTheWeightsNorm) {
  ExpectUpdates(
      "lars { momentum: 0 weight_decay: 0 coefficient: 500 } }", 1e-4,
      [](double gradient, double weights) { return kLr * 500 * weights / (gradient + 1e-8); });
}

// A stage controlled by the test.
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
