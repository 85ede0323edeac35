#include "worker/exchange/layers/local_steps_layer.h"

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

constexpr absl::Time kNow = absl::UnixEpoch();
constexpr uint32_t kElements = 11;
constexpr uint64_t kRound = 3;

Bytes Floats(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()),
               owner->size() * sizeof(float));
}

std::vector<float> Values(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

// An exchange of one chunk that asks for a sum as soon as it is told of it, from the round that it
// begins with.
class OneChunk final : public ExchangeStage {
 public:
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

  uint64_t round = 0;
  std::vector<float> pushed;
  uint32_t samples = 0;
};

CoreOptions Options(const std::string& job) {
  CoreOptions options;
  *options.record.mutable_job() = *ParseJob(
      absl::StrCat("name: 'j' program { path: 'p' } ranks: 1 schedule { base_lr: 0.1 } ", job),
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
    EXPECT_TRUE(layer.OnPayload(asked, Floats(first), {}, kNow, &actions).ok());
  }

  // Makes one round; returns what is pushed, and what the weights are then.
  std::vector<std::vector<float>> Round(uint64_t number) {
    for (uint64_t step = number * kRound; step < (number + 1) * kRound; ++step) {
      std::vector<float> gradient;
      for (uint32_t i = 0; i < kElements; ++i) gradient.push_back(std::sin(0.9f * i + step));
      CoreActions asked, given;
      EXPECT_TRUE(layer.Submit(ChunkId(0), kNow, &asked).ok());
      EXPECT_EQ(asked.node[0].clock, step);
      EXPECT_TRUE(
          layer.OnPayload(asked.node[0], Floats(gradient), {.samples = 4}, kNow, &given).ok());
    }
    std::vector<float> answer;
    for (uint32_t i = 0; i < kElements; ++i) answer.push_back(std::cos(0.4f * i + number));
    CoreActions landed, given;
    landed.node.push_back({.kind = NodeAction::Kind::kDeliver,
                           .clock = below.round - 1,
                           .lands = true,
                           .weights = Floats(answer)});
    EXPECT_TRUE(layer.Filter(std::move(landed), kNow, &given).ok());
    EXPECT_EQ(given.node.size(), 1u);
    return {below.pushed, Values(given.node[0].weights), {static_cast<float>(below.samples)}};
  }

  const CoreOptions options;
  OneChunk below;
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

}  // namespace
}  // namespace strata::worker
