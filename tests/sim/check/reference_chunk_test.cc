// Tests the model with numbers worked out by hand; all are exact in fp32.
#include "tests/sim/check/reference_chunk.h"

#include <string>

#include "common/job/job.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace strata::sim {
namespace {

using Due = ReferenceChunk::Due;
using Dues = std::vector<Due>;

// One chunk of `elements`; nodes with so many ranks each, a batch of 4 per rank.
proto::JobRecord RecordOf(const std::string& job, std::vector<uint32_t> ranks,
                          uint32_t elements = 1) {
  proto::JobRecord record;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(job, record.mutable_job()));
  record.mutable_job()->mutable_data()->set_batch_per_rank(4);
  FillDefaults(record.mutable_job());
  uint32_t first_rank = 0;
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    proto::LogicalNode* node = record.mutable_view()->add_nodes();
    node->set_node(i);
    node->set_first_rank(first_rank);
    node->set_ranks(ranks[i]);
    first_rank += ranks[i];
  }
  record.mutable_placement()->set_chunk_elements(elements);
  record.mutable_layout()->set_elements(elements);
  proto::Segment* segment = record.mutable_layout()->add_segments();
  segment->add_shape(elements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  return record;
}

// SGD at rate 1 without decay: the weight falls by the mean gradient.
std::string Sgd(const std::string& mode) {
  return "optimizer { sgd {} } schedule { base_lr: 1 } consistency { " + mode + " }";
}

ReferenceChunk Chunk(const proto::JobRecord& record, std::vector<float> first = {0}) {
  return ReferenceChunk(record, ChunkId(0), std::move(first));
}

float W(const ReferenceChunk& chunk) { return chunk.weights().at(0); }

TEST(ReferenceChunk, SyncDividesTheSumOfAllNodesByAllSamplesAndThenAnswersAll) {
  ReferenceChunk chunk = Chunk(RecordOf(Sgd("sync {}"), {3, 1}), {10});
  EXPECT_EQ(chunk.OnPush({.node = 1, .samples = 4, .sum = {8}}), Dues());
  EXPECT_EQ(W(chunk), 10);
  EXPECT_EQ(chunk.OnPush({.node = 0, .samples = 12, .sum = {40}}),
            Dues({{0, 0, 0, 1}, {1, 0, 0, 1}}));
  EXPECT_EQ(W(chunk), 10 - 48.0f / 16);
  EXPECT_EQ(chunk.version(), 1u);
  EXPECT_EQ(chunk.violation(), "");
}

TEST(ReferenceChunk, AddsAlongTheTreeOverNodesWhateverTheOrderOfArrival) {
  constexpr float kBig = 1 << 24;  // kBig + 1 rounds to kBig
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 4, 0, 3, 1}}) {
    // ((big + 1) + (1 - big)) + 8 = (big + (1 - big)) + 8; from left to right it would be 8.
    const float leaf[] = {kBig, 1, 1, -kBig, 8};
    ReferenceChunk chunk = Chunk(RecordOf(Sgd("sync {}"), {1, 1, 1, 1, 1}));
    for (const uint32_t node : order) {
      chunk.OnPush({.node = node, .samples = node == 4 ? 4u : 1u, .sum = {leaf[node]}});
    }
    EXPECT_EQ(W(chunk), -9.0f / 8);
  }
}

TEST(ReferenceNodeSum, FollowsTheTreeOverRanks) {
  constexpr float kBig = 1 << 24;
  const float rank[] = {1, kBig, -kBig};
  const auto sum = [&](size_t ranks) {
    std::vector<absl::Span<const float>> spans;
    for (size_t i = 0; i < ranks; ++i) spans.push_back(absl::MakeConstSpan(&rank[i], 1));
    return ReferenceNodeSum(spans).at(0);
  };
  EXPECT_EQ(sum(1), 1);
  EXPECT_EQ(sum(2), kBig);
  EXPECT_EQ(sum(3), 0) << "(1 + big) - big";
}

TEST(ReferenceChunk, LazyAnswersOnceNobodyIsMoreThanTheBoundBehind) {
  ReferenceChunk chunk = Chunk(RecordOf(Sgd("lazy { staleness: 2 }"), {1, 1}));
  EXPECT_EQ(chunk.OnPush({.node = 0, .clock = 0, .samples = 1, .sum = {1}}), Dues({{0, 0, 1, 0}}));
  EXPECT_EQ(chunk.OnPush({.node = 0, .clock = 1, .samples = 1, .sum = {1}}), Dues({{0, 1, 2, 0}}));
  EXPECT_EQ(chunk.OnPush({.node = 0, .clock = 2, .samples = 1, .sum = {1}}), Dues());
  EXPECT_EQ(W(chunk), 0) << "per clock: nothing is complete";
  EXPECT_EQ(chunk.OnPush({.node = 1, .clock = 0, .samples = 1, .sum = {3}}),
            Dues({{0, 2, 2, 1}, {1, 0, 0, 1}}));
  EXPECT_EQ(W(chunk), -2);
  EXPECT_EQ(chunk.min_clock(), 1u);
}

TEST(ReferenceChunk, OnArrivalEachPushTakesItsShareOfTheRate) {
  const proto::JobRecord record = RecordOf(Sgd("lazy { staleness: 1 apply: ON_ARRIVAL }"), {1, 3});
  ReferenceChunk chunk = Chunk(record);
  EXPECT_EQ(chunk.OnPush({.node = 0, .samples = 4, .sum = {8}}), Dues({{0, 0, 1, 1}}));
  EXPECT_EQ(W(chunk), -2 * 0.25f) << "the mean gradient, at 4 of 16 samples' rate";
  EXPECT_EQ(chunk.OnPush({.node = 1, .samples = 12, .sum = {12}}), Dues({{1, 0, 0, 2}}));
  EXPECT_EQ(W(chunk), -0.5f - 1.0f * 0.75f);
}

TEST(ReferenceChunk, AsyncAnswersAtOnceWithTheVersionsThatThePushIsBehind) {
  ReferenceChunk chunk = Chunk(RecordOf(Sgd("async {}"), {1, 1}));
  EXPECT_EQ(chunk.OnPush({.node = 0, .samples = 2, .sum = {2}}), Dues({{0, 0, 0, 1}}));
  EXPECT_EQ(chunk.OnPush({.node = 0, .clock = 1, .base_version = 1, .samples = 1, .sum = {1}}),
            Dues({{0, 1, 0, 2}}));
  EXPECT_EQ(chunk.OnPush({.node = 1, .samples = 1, .sum = {4}}), Dues({{1, 0, 2, 3}}));
  EXPECT_EQ(W(chunk), -6) << "undamped";
}

TEST(ReferenceChunk, InverseStalenessDividesTheRate) {
  ReferenceChunk chunk = Chunk(RecordOf(Sgd("async { damping: INVERSE_STALENESS }"), {1, 1}));
  chunk.OnPush({.node = 0, .samples = 1, .sum = {1}});
  EXPECT_EQ(W(chunk), -1) << "staleness 0";
  chunk.OnPush({.node = 0, .clock = 1, .samples = 1, .sum = {1}});
  EXPECT_EQ(W(chunk), -2) << "staleness 1";
  EXPECT_EQ(chunk.OnPush({.node = 1, .samples = 1, .sum = {4}}), Dues({{1, 0, 2, 3}}));
  EXPECT_EQ(W(chunk), -4) << "staleness 2: half of 4";
}

TEST(ReferenceChunk, ANodeThatRetiredHoldsNobodyUp) {
  ReferenceChunk chunk = Chunk(RecordOf(Sgd("sync {}"), {1, 1, 1}));
  chunk.OnPush({.node = 0, .samples = 1, .sum = {3}});
  chunk.OnPush({.node = 2, .samples = 2, .sum = {3}});
  EXPECT_EQ(chunk.OnRetire(1), Dues({{0, 0, 0, 1}, {2, 0, 0, 1}}));
  EXPECT_EQ(W(chunk), -6 * (1.0f / 3));
  EXPECT_EQ(chunk.OnRetire(0), Dues());
  EXPECT_EQ(chunk.OnRetire(2), Dues());
  EXPECT_EQ(chunk.version(), 1u);
  EXPECT_EQ(chunk.min_clock(), 1u);
}

TEST(ReferenceChunk, ThoseWhoHavePushedAreSummedWhenTheLastOneMissingRetires) {
  ReferenceChunk chunk = Chunk(RecordOf(Sgd("lazy { staleness: 3 }"), {1, 1}));
  chunk.OnPush({.node = 0, .clock = 0, .samples = 1, .sum = {1}});
  chunk.OnPush({.node = 0, .clock = 1, .samples = 1, .sum = {2}});
  EXPECT_EQ(chunk.OnRetire(1), Dues());
  EXPECT_EQ(chunk.version(), 2u);
  EXPECT_EQ(W(chunk), -3);
}

TEST(ReferenceChunk, AClockWithoutSamplesCountsAndChangesNothing) {
  ReferenceChunk chunk = Chunk(RecordOf(Sgd("sync {}"), {1, 1}), {7});
  chunk.OnPush({.node = 0});
  EXPECT_EQ(chunk.OnPush({.node = 1}), Dues({{0, 0, 0, 1}, {1, 0, 0, 1}}));
  EXPECT_EQ(W(chunk), 7);
}

TEST(ReferenceChunk, AQuorumClosesAClockAndWhoIsLateIsAnsweredAtOnceAndCountsInTheNext) {
  ReferenceChunk chunk = Chunk(RecordOf(Sgd("lazy { quorum { nodes: 2 } }"), {1, 1, 1}));
  EXPECT_EQ(chunk.OnPush({.node = 0, .samples = 1, .sum = {1}}), Dues());
  EXPECT_EQ(chunk.OnPush({.node = 2, .samples = 1, .sum = {3}}),
            Dues({{0, 0, 0, 1}, {2, 0, 0, 1}}));
  EXPECT_EQ(W(chunk), -2);
  EXPECT_EQ(chunk.OnPush({.node = 1, .samples = 2, .sum = {9}}), Dues({{1, 0, 1, 1}}));
  EXPECT_EQ(W(chunk), -2);
  EXPECT_EQ(chunk.OnPush({.node = 1, .clock = 1, .base_version = 1, .samples = 1, .sum = {2}}),
            Dues());
  EXPECT_EQ(chunk.OnPush({.node = 0, .clock = 1, .base_version = 1, .samples = 1, .sum = {1}}),
            Dues({{0, 1, 0, 2}, {1, 1, 0, 2}}));
  EXPECT_EQ(W(chunk), -5) << "(9 + 2 + 1) / 4 more";
}

TEST(ReferenceChunk, AGraceKeepsAClockOpenForTheOthers) {
  const proto::JobRecord record =
      RecordOf(Sgd("lazy { quorum { nodes: 1 grace_ms: 10 } }"), {1, 1, 1});
  const auto ms = [](int64_t n) { return absl::UnixEpoch() + absl::Milliseconds(n); };
  ReferenceChunk chunk = Chunk(record);
  EXPECT_EQ(chunk.OnPush({.node = 0, .samples = 1, .sum = {1}, .at = ms(5)}), Dues());
  EXPECT_EQ(chunk.OnPush({.node = 1, .samples = 1, .sum = {3}, .at = ms(14)}), Dues());
  EXPECT_EQ(chunk.OnTime(ms(14)), Dues());
  EXPECT_EQ(chunk.OnTime(ms(15)), Dues({{0, 0, 0, 1}, {1, 0, 0, 1}}));
  EXPECT_EQ(W(chunk), -2);
  EXPECT_EQ(chunk.OnPush({.node = 2, .samples = 1, .sum = {3}, .at = ms(16)}),
            Dues({{2, 0, 1, 1}}));
  for (const uint32_t node : {2, 1, 0}) EXPECT_EQ(chunk.OnRetire(node, ms(17)), Dues());
  EXPECT_EQ(W(chunk), -5) << "what was late is applied in the end";
}

TEST(ReferenceChunk, SaysWhatNoShardMayAccept) {
  const proto::JobRecord record = RecordOf(Sgd("sync {}"), {1, 1});
  const auto violation = [&](std::vector<ReferencePush> pushes) {
    ReferenceChunk chunk = Chunk(record);
    for (ReferencePush& push : pushes) chunk.OnPush(std::move(push));
    return chunk.violation();
  };
  EXPECT_EQ(violation({{.node = 0, .clock = 1, .samples = 1, .sum = {1}}}),
            "node 0 pushed clock 1, expected 0");
  EXPECT_EQ(violation({{.node = 0}, {.node = 0}}), "node 0 pushed clock 0, expected 1");
  EXPECT_EQ(violation({{.node = 0}, {.node = 0, .clock = 1}}),
            "node 0 pushed clock 1 while the push before was not answered");
  EXPECT_EQ(violation({{.node = 1, .base_version = 3}}),
            "node 1 pushed clock 0 on base version 3 of 0");
  EXPECT_EQ(violation({{.node = 1, .samples = 1, .sum = {1, 2}}}),
            "node 1 pushed clock 0 with 2 elements of 1 samples");
  EXPECT_EQ(violation({{.node = 2}}), "node 2 is not in the view");
  ReferenceChunk chunk = Chunk(record);
  chunk.OnRetire(0);
  chunk.OnPush({.node = 0});
  EXPECT_EQ(chunk.violation(), "node 0 pushed clock 0 after it had retired");
}

}  // namespace
}  // namespace strata::sim
