#include "worker/exchange/core/local_steps_layer.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

constexpr absl::Time kLocalStepsNow = absl::UnixEpoch();
constexpr uint32_t kElements = 11;
constexpr uint64_t kRound = 3;

Bytes LocalStepsFloats(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()),
               owner->size() * sizeof(float));
}

std::vector<float> Values(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

// An exchange of one chunk that requests a sum as soon as it is submitted, beginning with its first
// round.
class LocalStepsOneChunk final : public ExchangeStage {
 public:
  uint64_t first_clock() const override { return first; }
  absl::Status Submit(ChunkId, absl::Time, CoreActions* actions) override {
    actions->node.push_back({.kind = NodeAction::Kind::kSum, .clock = round++});
    return absl::OkStatus();
  }
  absl::Status Finish(uint64_t, absl::Time, CoreActions*) override { return absl::OkStatus(); }
  absl::Status OnPayload(const NodeAction&, Bytes payload, const StepFacts& step, absl::Time,
                         CoreActions*) override {
    pushed = Values(payload);
    samples = step.samples;
    return absl::OkStatus();
  }

  uint64_t first = 0, round = 0;
  std::vector<float> pushed;
  uint32_t samples = 0;
};

CoreOptions Options(const std::string& job) {
  CoreOptions options;
  *options.record.mutable_job() =
      *ParseJob(absl::StrCat("name: 'j' program { path: 'p' } ranks: 1 schedule { base_lr: 0.1 "
                             "warmup_epochs: 2 } ",
                             job),
                "j");
  FillDefaults(options.record.mutable_job());
  options.record.set_samples_per_epoch(40);
  options.record.mutable_view()->add_nodes()->set_ranks(1);
  options.record.mutable_placement()->set_chunk_elements(kElements);
  proto::Segment* segment = options.record.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(kElements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  options.record.mutable_layout()->set_elements(kElements);
  return options;
}

// A node with one chunk, and what its exchange makes of its changes.
struct Node {
  explicit Node(const std::string& job)
      : options(Options(job)), layer(&below, options, kernels::Cpu()) {}

  void Seed() {
    std::vector<float> first;
    for (uint32_t i = 0; i < kElements; ++i) first.push_back(1.0f + i);
    CoreActions actions;
    const NodeAction asked = {.kind = NodeAction::Kind::kFirstWeights};
    EXPECT_TRUE(layer.OnPayload(asked, LocalStepsFloats(first), {}, kLocalStepsNow, &actions).ok());
  }

  // Its exchange has found that it replaces a process that died in this round.
  void TakePlace(uint64_t round) {
    below.first = below.round = round;
    GiveFirst(Answer(round - 1));
  }
  void GiveFirst(std::vector<float> weights) {
    CoreActions found, given;
    found.node.push_back(
        {.kind = NodeAction::Kind::kDeliverFirst, .weights = LocalStepsFloats(weights)});
    EXPECT_TRUE(layer.Filter(std::move(found), kLocalStepsNow, &given).ok());
    ASSERT_EQ(given.node.size(), 1u);
    EXPECT_EQ(Values(given.node[0].weights), weights) << "the node begins with them";
  }

  void Step(uint64_t step, uint32_t samples = 4) {
    std::vector<float> gradient;
    for (uint32_t i = 0; i < kElements; ++i) gradient.push_back(std::sin(0.9f * i + step));
    CoreActions asked, given;
    EXPECT_TRUE(layer.Submit(ChunkId(0), kLocalStepsNow, &asked).ok());
    EXPECT_EQ(asked.node[0].clock, step);
    EXPECT_TRUE(layer
                    .OnPayload(asked.node[0], LocalStepsFloats(gradient), {.samples = samples},
                               kLocalStepsNow, &given)
                    .ok());
  }
  // The servers' weights after a round.
  static std::vector<float> Answer(uint64_t round) {
    std::vector<float> answer;
    for (uint32_t i = 0; i < kElements; ++i) answer.push_back(std::cos(0.4f * i + round));
    return answer;
  }

  // Makes one round; returns what is pushed, and the weights after it.
  std::vector<std::vector<float>> Round(uint64_t number, uint32_t first_samples = 4) {
    for (uint64_t i = 0; i < kRound; ++i) Step(number * kRound + i, i == 0 ? first_samples : 4);
    CoreActions landed, given;
    landed.node.push_back({.kind = NodeAction::Kind::kDeliver,
                           .clock = below.round - 1,
                           .lands = true,
                           .weights = LocalStepsFloats(Answer(number))});
    EXPECT_TRUE(layer.Filter(std::move(landed), kLocalStepsNow, &given).ok());
    EXPECT_EQ(given.node.size(), 1u);
    return {below.pushed, Values(given.node[0].weights), {static_cast<float>(below.samples)}};
  }

  const CoreOptions options;
  LocalStepsOneChunk below;
  LocalStepsLayer layer;
};

TEST(LocalSteps, GoOnFromAnImageWithTheSamePushesAndWeights) {
  for (const std::string optimizer : {"sgd {}", "momentum_sgd {}", "adamw {}"}) {
    for (const std::string mode :
         {"lazy { local_steps: 3 }", "async { elastic { every_steps: 3 moving_rate: 0.3 } }",
          "lazy { local_steps: 3 significance { threshold: 0.2 } }"}) {
      const std::string job =
          absl::StrCat("optimizer { ", optimizer, " } consistency { ", mode, " }");
      Node node(job), resumed(job);
      node.Seed();
      for (uint64_t round = 0; round < 3; ++round) node.Round(round);
      const LocalStepsImage image = node.layer.Image(ChunkId(0));
      EXPECT_EQ(image.clock, 3 * kRound);
      EXPECT_EQ(image.last_samples, 4 * kRound);
      ASSERT_TRUE(resumed.layer.Restore(ChunkId(0), image).ok());
      resumed.below.round = 3;
      for (uint64_t round = 3; round < 6; ++round) {
        EXPECT_EQ(resumed.Round(round), node.Round(round)) << job << ' ' << round;
      }
    }
  }
}

TEST(LocalSteps, ImagesThatDoNotFitAreRefusedByName) {
  constexpr char kMode[] = "consistency { lazy { local_steps: 3 } }";
  Node adam(absl::StrCat("optimizer { adamw {} } ", kMode));
  adam.Seed();
  adam.Round(0);
  LocalStepsImage image = adam.layer.Image(ChunkId(0));
  Node sgd(absl::StrCat("optimizer { sgd {} } ", kMode));
  EXPECT_EQ(sgd.layer.Restore(ChunkId(0), image).message(),
            "optimizer state of 2 vectors, the job's optimizer has 0");
  Node four("optimizer { adamw {} } consistency { lazy { local_steps: 4 } }");
  EXPECT_EQ(four.layer.Restore(ChunkId(0), image).message(), "3 steps, which end no round of 4");
  image.start = image.start.Part(0, 8);
  Node other(absl::StrCat("optimizer { adamw {} } ", kMode));
  EXPECT_EQ(other.layer.Restore(ChunkId(0), image).message(),
            "vectors of 2 elements, the chunk has 11");
}

constexpr char kThreeSteps[] = " consistency { lazy { local_steps: 3 } }";

// The rate follows the samples of all steps; the earlier steps had the same number.
TEST(LocalSteps, InThePlaceOfAProcessThatDiedItsRoundIsMadeAgainAndOnlyTheOptimizersStateIsLost) {
  for (const std::string optimizer :
       {"sgd {}", "momentum_sgd {}", "adamw {}", "rmsprop_warmup {}"}) {
    const std::string job = absl::StrCat("optimizer { ", optimizer, " }", kThreeSteps);
    Node node(job), without_state(job), next(job);
    node.Seed();
    for (uint64_t round = 0; round < 3; ++round) node.Round(round);
    LocalStepsImage image = node.layer.Image(ChunkId(0));
    image.own.updates = 0;
    for (Bytes& vector : image.own.state)
      vector = LocalStepsFloats(std::vector<float>(kElements, 0.0f));
    ASSERT_TRUE(without_state.layer.Restore(ChunkId(0), image).ok());
    without_state.below.round = 3;
    next.TakePlace(3);
    EXPECT_EQ(next.layer.first_clock(), 3 * kRound);
    for (uint64_t round = 3; round < 6; ++round) {
      const auto made = next.Round(round);
      EXPECT_EQ(made, without_state.Round(round)) << job << ' ' << round;
      EXPECT_EQ(made == node.Round(round), optimizer == "sgd {}") << job << ' ' << round;
    }
    EXPECT_EQ(next.layer.Image(ChunkId(0)).clock, 6 * kRound);
    EXPECT_EQ(next.layer.Image(ChunkId(0)).own.samples, node.layer.Image(ChunkId(0)).own.samples);
  }
}

TEST(LocalSteps, InThePlaceOfAProcessThatDiedTheNewestOfItsFirstWeightsHold) {
  const std::string job = absl::StrCat("optimizer { momentum_sgd {} }", kThreeSteps);
  Node once(job), again(job);
  once.TakePlace(2);
  again.TakePlace(3);
  again.TakePlace(2);
  EXPECT_EQ(again.Round(2), once.Round(2));
}

TEST(LocalSteps, AShortFirstStepDoesNotPutTheScheduleBack) {
  Node node(absl::StrCat("optimizer { sgd {} }", kThreeSteps));
  node.TakePlace(3);
  node.Round(3, /*first_samples=*/1);
  EXPECT_EQ(node.layer.Image(ChunkId(0)).own.samples, 9u * 4 + 1 + 4 + 4);
  node.Round(4, /*first_samples=*/2);
  EXPECT_EQ(node.layer.Image(ChunkId(0)).own.samples, 9u * 4 + 9 + 10) << "they count once";
}

TEST(LocalSteps, AShorterLastRoundThatTheProcessBeforeHasPushedIsNotPushedAgain) {
  const std::string job = absl::StrCat("optimizer { sgd {} }", kThreeSteps);
  for (const uint64_t first : {2, 3}) {
    Node node(job);
    node.TakePlace(first);
    for (uint64_t step = first * kRound; step < 8; ++step) node.Step(step);
    CoreActions actions;
    ASSERT_TRUE(node.layer.Finish(8, kLocalStepsNow, &actions).ok());
    EXPECT_EQ(node.below.round, 3u) << "rounds of 3, 3 and 2 steps";
    EXPECT_EQ(node.below.samples, first == 2 ? 8u : 0u);
  }
}

}  // namespace
}  // namespace strata::worker
