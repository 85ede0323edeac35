#include "worker/exchange/core/double_buffer_layer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

constexpr absl::Time kDoubleBufferNow = absl::UnixEpoch();

Bytes Floats(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()),
               owner->size() * sizeof(float));
}

// An exchange of one chunk that requests a sum as soon as it is submitted.
class OneChunk final : public ExchangeStage {
 public:
  absl::Status Submit(ChunkId, absl::Time, CoreActions* actions) override {
    actions->node.push_back({.kind = NodeAction::Kind::kSum, .clock = sums.size()});
    return absl::OkStatus();
  }
  absl::Status Finish(uint64_t clocks, absl::Time, CoreActions*) override {
    finished = clocks;
    return absl::OkStatus();
  }
  absl::Status OnPayload(const NodeAction&, Bytes payload, const StepFacts& step, absl::Time,
                         CoreActions*) override {
    rates.push_back(step.rate);
    sums.push_back(payload.floats()[0]);
    return error;
  }
  // The answer to the current sum.
  CoreActions Answer(float weight) const {
    CoreActions actions;
    actions.node.push_back({.kind = NodeAction::Kind::kDeliver,
                            .clock = sums.size() - 1,
                            .lands = true,
                            .weights = Floats({weight})});
    return actions;
  }

  std::vector<float> sums, rates;
  std::optional<uint64_t> finished;
  absl::Status error;
};

class DoubleBufferTest : public ::testing::Test {
 protected:
  // The ranks have published; returns what the node is given then.
  std::vector<NodeAction> Publish(float sum) {
    CoreActions actions;
    EXPECT_EQ(layer_.Submit(ChunkId(0), kDoubleBufferNow, &actions), absl::OkStatus());
    EXPECT_EQ(actions.node.size(), 1u);
    const NodeAction asked = actions.node[0];
    EXPECT_EQ(asked.kind, NodeAction::Kind::kSum);
    EXPECT_EQ(asked.clock, clock_++);
    CoreActions given;
    status_ = layer_.OnPayload(asked, Floats({sum}), {.samples = 8, .rate = sum / 2},
                               kDoubleBufferNow, &given);
    return given.node;
  }
  std::vector<NodeAction> Answer(float weight) {
    CoreActions actions;
    EXPECT_EQ(layer_.Filter(below_.Answer(weight), kDoubleBufferNow, &actions), absl::OkStatus());
    return actions.node;
  }
  void ExpectGiven(const std::vector<NodeAction>& given, uint64_t clock, float weight) {
    ASSERT_EQ(given.size(), 1u);
    EXPECT_EQ(given[0].clock, clock);
    EXPECT_TRUE(given[0].lands);
    EXPECT_EQ(given[0].weights.floats()[0], weight);
  }

  static proto::JobRecord Record(uint64_t every_steps, uint64_t resume_clock = 0) {
    proto::JobRecord record;
    record.mutable_layout()->set_elements(1);
    record.mutable_placement()->set_chunk_elements(1);
    record.mutable_job()->mutable_checkpoint()->set_every_steps(every_steps);
    record.mutable_resume()->set_clock(resume_clock);
    return record;
  }

  OneChunk below_;
  DoubleBufferLayer layer_{&below_, Record(0)};
  uint64_t clock_ = 0;
  absl::Status status_;
};

TEST_F(DoubleBufferTest, TheFirstStepGoesOnWithTheFirstWeights) {
  const auto given = Publish(1);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].clock, 0u);
  EXPECT_TRUE(given[0].lands);
  EXPECT_TRUE(given[0].weights.empty());
  EXPECT_EQ(below_.sums, std::vector<float>{1});
  EXPECT_TRUE(layer_.goes_on());
}

TEST_F(DoubleBufferTest, AnAnswerWaitsForTheNextPublication) {
  Publish(1);
  EXPECT_TRUE(Answer(10).empty());
  EXPECT_FALSE(layer_.goes_on());
  EXPECT_EQ(layer_.memory_bytes(), sizeof(float));
  ExpectGiven(Publish(2), 1, 10);
  EXPECT_EQ(layer_.memory_bytes(), 0u);
}

TEST_F(DoubleBufferTest, ASumWaitsForTheAnswerBefore) {
  Publish(1);
  EXPECT_TRUE(Publish(2).empty());
  EXPECT_EQ(below_.sums.size(), 1u);
  ExpectGiven(Answer(10), 1, 10);
  EXPECT_EQ(below_.sums, (std::vector<float>{1, 2}));
  EXPECT_EQ(below_.rates, (std::vector<float>{0.5, 1})) << "each with the rate of its own step";
}

TEST_F(DoubleBufferTest, TheEndWaitsForSumsThatWaitAndGivesTheLastWeightsToNoStep) {
  Publish(1);
  Publish(2);
  CoreActions actions;
  EXPECT_EQ(layer_.Finish(2, kDoubleBufferNow, &actions), absl::OkStatus());
  EXPECT_FALSE(below_.finished.has_value());
  ExpectGiven(Answer(10), 1, 10);
  EXPECT_EQ(below_.finished, 2u);
  const auto last = Answer(20);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_FALSE(last[0].lands);
  EXPECT_EQ(last[0].weights.floats()[0], 20);
}

TEST_F(DoubleBufferTest, AnAnswerThatCameBeforeTheEndIsGivenThen) {
  Publish(1);
  Answer(10);
  CoreActions actions;
  EXPECT_EQ(layer_.Finish(1, kDoubleBufferNow, &actions), absl::OkStatus());
  EXPECT_EQ(below_.finished, 1u);
  ASSERT_EQ(actions.node.size(), 1u);
  EXPECT_FALSE(actions.node[0].lands);
  EXPECT_EQ(actions.node[0].weights.floats()[0], 10);
}

// A layer resumed at step 3 holds answer 2, as the original did, or would have.
TEST_F(DoubleBufferTest, GoesOnFromTheWeightsThatTheNextPublicationBrings) {
  layer_.GoOnAt(ChunkId(0), 3, Floats({20}));
  clock_ = 3;
  EXPECT_EQ(layer_.memory_bytes(), sizeof(float));
  EXPECT_FALSE(layer_.goes_on());
  ExpectGiven(Publish(4), 3, 20);
  EXPECT_EQ(below_.sums, std::vector<float>{4});
  EXPECT_TRUE(Publish(5).empty());
  ExpectGiven(Answer(30), 4, 30);
  EXPECT_EQ(below_.sums, (std::vector<float>{4, 5}));
}

TEST_F(DoubleBufferTest, ACheckpointHasTheWeightsThatItsStepBeginsWith) {
  DoubleBufferLayer layer(&below_, Record(/*every_steps=*/2));
  const auto publish = [&](float sum) {
    CoreActions asked, given;
    EXPECT_EQ(layer.Submit(ChunkId(0), kDoubleBufferNow, &asked), absl::OkStatus());
    EXPECT_EQ(layer.OnPayload(asked.node[0], Floats({sum}), {}, kDoubleBufferNow, &given),
              absl::OkStatus());
  };
  const auto answer = [&](float weight) {
    CoreActions actions;
    EXPECT_EQ(layer.Filter(below_.Answer(weight), kDoubleBufferNow, &actions), absl::OkStatus());
  };
  publish(1);
  answer(10);
  publish(2);  // step 2 begins with 10
  answer(20);
  NodeChunkImage image;
  layer.AddArena(ChunkId(0), &image);
  EXPECT_EQ(image.arena.floats()[0], 10);

  OneChunk again;
  DoubleBufferLayer resumed(&again, Record(2, /*resume_clock=*/2));
  EXPECT_EQ(resumed.Restore(ChunkId(0), image), absl::OkStatus());
  EXPECT_FALSE(resumed.Restore(ChunkId(0), NodeChunkImage()).ok());
  CoreActions from, first, asked, given;
  from.node.push_back({.kind = NodeAction::Kind::kDeliverFirst, .weights = Floats({20})});
  EXPECT_EQ(resumed.Filter(std::move(from), kDoubleBufferNow, &first), absl::OkStatus());
  ASSERT_EQ(first.node.size(), 1u);
  EXPECT_EQ(first.node[0].weights.floats()[0], 10);
  EXPECT_EQ(resumed.Submit(ChunkId(0), kDoubleBufferNow, &asked), absl::OkStatus());
  EXPECT_EQ(asked.node[0].clock, 2u);
  EXPECT_EQ(resumed.OnPayload(asked.node[0], Floats({3}), {}, kDoubleBufferNow, &given),
            absl::OkStatus());
  ExpectGiven(given.node, 2, 20);
}

TEST_F(DoubleBufferTest, ErrorsOfTheExchangeAreTheLayers) {
  below_.error = absl::InvalidArgumentError("no sum");
  Publish(1);
  EXPECT_EQ(status_.message(), "no sum");
}

}  // namespace
}  // namespace strata::worker
