#include "worker/exchange/core/cut_layer.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();

// An exchange of two chunks; its images contain the number of sums that the chunk has had.
class TwoChunks final : public ExchangeStage {
 public:
  absl::Status Submit(ChunkId chunk, absl::Time, CoreActions*) override {
    ++sums[chunk.value()];
    return absl::OkStatus();
  }
  absl::Status Finish(uint64_t clocks, absl::Time, CoreActions*) override {
    finished = clocks;
    return absl::OkStatus();
  }
  absl::Status OnPayload(const NodeAction&, Bytes, const StepFacts&, absl::Time,
                         CoreActions*) override {
    return absl::OkStatus();
  }
  uint64_t first_clock() const override { return first; }
  void AddToImage(ChunkId chunk, NodeChunkImage* image) override {
    image->push = PushImage{.samples = sums[chunk.value()]};
  }

  uint64_t first = 0, sums[2] = {0, 0}, finished = 0;
};

proto::JobRecord RecordOf(const std::string& job) {
  proto::JobRecord record;
  *record.mutable_job() = *ParseJob(
      absl::StrCat("name: 'j' program { path: 'p' } ranks: 1 schedule { base_lr: 0.1 } optimizer { "
                   "sgd {} } ",
                   job),
      "j");
  FillDefaults(record.mutable_job());
  record.mutable_layout()->set_elements(7);
  record.mutable_placement()->set_chunk_elements(4);
  return record;
}

class CutLayerTest : public ::testing::Test {
 protected:
  explicit CutLayerTest(const std::string& job =
                            "push { codec: INT8 } checkpoint { dir: '/c' "
                            "every_steps: 2 }")
      : layer_(&below_, RecordOf(job)) {}

  void Submit(uint32_t chunk) {
    CoreActions actions;
    EXPECT_EQ(layer_.Submit(ChunkId(chunk), kNow, &actions), absl::OkStatus());
  }
  void Answer(uint32_t chunk) {
    CoreActions from, actions;
    from.node.push_back(
        {.kind = NodeAction::Kind::kDeliver, .chunk = ChunkId(chunk), .lands = true});
    EXPECT_EQ(layer_.Filter(std::move(from), kNow, &actions), absl::OkStatus());
    EXPECT_EQ(actions.node.size(), 1u);
  }
  void Step(uint32_t chunk) {
    Submit(chunk);
    Answer(chunk);
  }
  void Finish(uint64_t clocks) {
    CoreActions actions;
    EXPECT_EQ(layer_.Finish(clocks, kNow, &actions), absl::OkStatus());
    EXPECT_EQ(below_.finished, clocks);
  }

  TwoChunks below_;
  CutLayer layer_;
};

TEST_F(CutLayerTest, AChunkIsCutBeforeTheFirstSumAfterTheCheckpointsClock) {
  for (uint32_t chunk : {0, 1, 0, 1}) Step(chunk);
  EXPECT_TRUE(layer_.TakeCuts().empty());
  Step(1);
  EXPECT_TRUE(layer_.TakeCuts().empty()) << "the other chunk is not there yet";
  Step(0);
  const std::vector<Cut<NodeChunkImage>> cuts = layer_.TakeCuts();
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].clock, 2u);
  EXPECT_EQ(cuts[0].problem, "");
  ASSERT_EQ(cuts[0].images.size(), 2u);
  for (uint32_t chunk : {0, 1}) {
    EXPECT_EQ(cuts[0].images[chunk].begin, 4 * chunk);
    EXPECT_EQ(cuts[0].images[chunk].elements, 4 - chunk);
    EXPECT_EQ(cuts[0].images[chunk].push->samples, 2u);
  }
}

TEST_F(CutLayerTest, TheEndOfTheJobIsCutWithItsLastAnswer) {
  for (uint32_t chunk : {0, 1, 0}) Step(chunk);
  Submit(1);
  Finish(2);
  EXPECT_TRUE(layer_.TakeCuts().empty());
  Answer(1);
  ASSERT_EQ(layer_.TakeCuts().size(), 1u);
}

TEST_F(CutLayerTest, TheClockThatTheJobGoesOnFromIsNotCutAgain) {
  below_.first = 2;
  for (uint32_t chunk : {0, 1, 0, 1}) Step(chunk);
  EXPECT_TRUE(layer_.TakeCuts().empty());
  for (uint32_t chunk : {0, 1}) Step(chunk);
  const std::vector<Cut<NodeChunkImage>> cuts = layer_.TakeCuts();
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].clock, 4u);
}

TEST_F(CutLayerTest, WhatALayerAboveKeepsIsInTheImage) {
  layer_.AlsoFrom(
      [](ChunkId chunk, NodeChunkImage* image) { image->elements = 90 + chunk.value(); });
  for (uint32_t chunk : {0, 1, 0, 1, 0, 1}) Step(chunk);
  const std::vector<Cut<NodeChunkImage>> cuts = layer_.TakeCuts();
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].images[1].elements, 91u);
}

class RoundsTest : public CutLayerTest {
 protected:
  RoundsTest()
      : CutLayerTest("consistency { preset: 'local(2)' } checkpoint { dir: '/c' every_steps: 4 }") {
  }
};

TEST_F(RoundsTest, ClocksAreRounds) {
  for (int step = 0; step < 5; ++step) {
    for (uint32_t chunk : {0, 1}) Step(chunk);
  }
  const std::vector<Cut<NodeChunkImage>> cuts = layer_.TakeCuts();
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].clock, 2u);
  EXPECT_EQ(cuts[0].images[0].push->samples, 4u);
}

TEST_F(RoundsTest, AnEndWithinARoundIsNoCut) {
  for (int step = 0; step < 3; ++step) {
    for (uint32_t chunk : {0, 1}) Step(chunk);
  }
  Finish(3);  // the second round has one step
  const std::vector<Cut<NodeChunkImage>> cuts = layer_.TakeCuts();
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].clock, 2u);
  EXPECT_EQ(cuts[0].problem, "the job ends there, within a round");
}

}  // namespace
}  // namespace strata::worker
