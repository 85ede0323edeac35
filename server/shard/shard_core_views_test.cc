// Nodes that join a job while it trains, and leave it by plan: what they find at a shard.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using Floats = std::vector<float>;
using testing::HasSubstr;
using transport::ConnectionId;
using wire::ErrorCode;
using wire::Op;

// Three nodes of one rank with a sample each, of which the third one is absent, and two chunks of 4
// elements. A push of v takes v from each weight, once all nodes have pushed it.
class ChangedViews : public testing::Test {
 protected:
  void Install(const std::string& mode, uint64_t every_clocks = 0) {
    std::string text =
        absl::StrCat("optimizer { sgd {} } schedule { base_lr: 1 } ranks: 2 ranks_max: 3 ", mode);
    if (every_clocks > 0) {
      absl::StrAppend(&text, " checkpoint { dir: '/c' every_steps: ", every_clocks, " }");
    }
    record_ = MakeRecord({.ranks = {1, 1, 1}, .batch_per_rank = 1, .job_text = text});
    record_.mutable_view()->mutable_nodes(2)->set_absent(true);
    ASSERT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    for (uint32_t node = 0; node < 3; ++node) nodes_.push_back(shard_.Join(record_, node));
    for (uint32_t chunk = 0; chunk < 2; ++chunk) {
      shard_.DeliverForOne(nodes_[0], InitFrame(record_, 0, chunk, Floats(4, 100)));
    }
  }
  proto::ViewChange Change(uint32_t number, uint64_t at, const std::vector<uint32_t>& joined,
                           const std::vector<uint32_t>& left = {}) const {
    proto::ViewChange change;
    change.set_job_id(record_.job_id());
    change.set_number(number);
    change.set_at_clock(at);
    for (const uint32_t node : joined) change.add_joined(node);
    for (const uint32_t node : left) change.add_left(node);
    return change;
  }
  absl::Status Take(const proto::ViewChange& change) { return shard_.core().ChangeView(change); }
  std::vector<Sent> Push(uint32_t node, uint32_t chunk, uint64_t clock, float value,
                         uint64_t base_version = 0) {
    return shard_.Deliver(
        nodes_[node], PushFrame(record_, node, chunk, clock, Floats(4, value), 1, base_version));
  }
  void PushFirstTwo(uint32_t chunk, uint64_t clock, float value) {
    for (uint32_t node = 0; node < 2; ++node) Push(node, chunk, clock, value);
  }
  wire::Frame Pull(uint32_t node, uint32_t chunk, uint64_t clock) {
    return shard_.DeliverForOne(nodes_[node], ControlFrame(record_, Op::kPull, node, chunk, clock));
  }
  void ExpectWaits(uint32_t node, uint32_t chunk, uint64_t clock) {
    const wire::Frame pull = ControlFrame(record_, Op::kPull, node, chunk, clock);
    EXPECT_TRUE(shard_.Deliver(nodes_[node], pull).empty()) << "node " << node;
  }
  wire::Frame Count(uint32_t node, uint32_t chunk) {
    wire::Frame frame = ControlFrame(record_, Op::kPull, node, chunk, UINT64_MAX);
    frame.header.flags = wire::kFlagEmpty;
    return shard_.DeliverForOne(nodes_[node], frame);
  }
  proto::NodeClock ClockOf(uint32_t node) {
    return shard_.core().NextReports().at(JobId(record_.job_id())).nodes[node];
  }

  ShardHarness shard_;
  proto::JobRecord record_;
  std::vector<ConnectionId> nodes_;
};

TEST_F(ChangedViews, NobodyWaitsForANodeThatIsAbsent) {
  Install("");
  EXPECT_TRUE(Push(0, 0, 0, 4).empty());
  const std::vector<Sent> answers = Push(1, 0, 0, 2);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(ToFloats(answers[0].frame), Floats(4, 97));
  EXPECT_TRUE(ClockOf(2).retired());
  const std::vector<Sent> refused = Push(2, 0, 0, 1);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].frame.header.error, ErrorCode::kBeyondWindow);
  for (uint32_t node = 0; node < 2; ++node) {
    shard_.Deliver(nodes_[node], ControlFrame(record_, Op::kRetire, node, 0, 1));
  }
  const wire::Frame cut = shard_.DeliverForOne(nodes_[0], ControlFrame(record_, Op::kCut, 0, 0, 1));
  EXPECT_EQ(cut.header.op, Op::kCutAnswer);
}

TEST_F(ChangedViews, ANodeThatJoinsIsGivenTheWeightsThatItsFirstClockBeginsWith) {
  Install("");
  PushFirstTwo(0, 0, 1);
  EXPECT_EQ(Count(2, 0).header.op, Op::kRetry) << "the change has not come yet";
  ASSERT_TRUE(Take(Change(4, 3, {2})).ok());
  EXPECT_EQ(Count(2, 0).header.received, 3u);
  EXPECT_EQ(Count(2, 1).header.received, 3u) << "of every chunk, whatever clock it is at";
  EXPECT_EQ(ClockOf(2).clock(), 3u);
  EXPECT_FALSE(ClockOf(2).retired());
  ExpectWaits(2, 0, 3);
  PushFirstTwo(0, 1, 1);
  Push(0, 0, 2, 1);
  const std::vector<Sent> begins = Push(1, 0, 2, 1);
  ASSERT_EQ(begins.size(), 3u) << "also what node 2 waits for";
  EXPECT_EQ(begins[2].connection, nodes_[2]);
  const wire::Frame pulled = begins[2].frame;
  ASSERT_EQ(pulled.header.op, Op::kPulled);
  EXPECT_EQ(pulled.header.version, 3u);
  EXPECT_EQ(ToFloats(pulled), Floats(4, 97));
  // Clock 3 is of all three.
  PushFirstTwo(0, 3, 1);
  const std::vector<Sent> answers = Push(2, 0, 3, 4, 3);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(ToFloats(answers[2].frame), Floats(4, 95));
}

TEST_F(ChangedViews, ANodeThatLeavesHoldsNobodyUpAndMayComeBack) {
  Install("");
  ASSERT_TRUE(Take(Change(4, 1, {}, {1})).ok());
  PushFirstTwo(0, 0, 1);
  shard_.Deliver(nodes_[1], ControlFrame(record_, Op::kRetire, 1, 0, 1));
  EXPECT_EQ(Push(0, 0, 1, 1).size(), 1u);
  ASSERT_TRUE(Take(Change(5, 3, {1})).ok());
  ExpectWaits(1, 0, 3);
  EXPECT_EQ(Push(0, 0, 2, 1).size(), 2u);
  nodes_[1] = shard_.Join(record_, 1, 2);
  wire::Frame pull = ControlFrame(record_, Op::kPull, 1, 0, 3);
  pull.header.incarnation = 2;
  EXPECT_EQ(ToFloats(shard_.DeliverForOne(nodes_[1], pull)), Floats(4, 97));
  EXPECT_TRUE(Push(0, 0, 3, 1).empty());
}

TEST_F(ChangedViews, TheRetireOfAProcessThatHasLeftIsOldNewsOnceItsNodeHasJoinedAgain) {
  Install("");
  ASSERT_TRUE(Take(Change(4, 1, {}, {1})).ok());
  PushFirstTwo(0, 0, 1);
  const wire::Frame retire = ControlFrame(record_, Op::kRetire, 1, 0, 1);
  shard_.Deliver(nodes_[1], retire);
  EXPECT_EQ(Push(0, 0, 1, 1).size(), 1u);
  ASSERT_TRUE(Take(Change(5, 3, {1})).ok());
  EXPECT_EQ(shard_.DeliverForOne(nodes_[1], retire).header.op, Op::kRetireOk);
  EXPECT_FALSE(ClockOf(1).retired());
  EXPECT_EQ(Push(0, 0, 2, 1).size(), 1u);
  EXPECT_TRUE(Push(0, 0, 3, 1).empty()) << "node 1 is waited for";
}

// It may have died before it has retired everywhere.
TEST_F(ChangedViews, AProcessInThePlaceOfOneThatHasLeftIsGivenAnyWeights) {
  Install("");
  ASSERT_TRUE(Take(Change(4, 1, {}, {1})).ok());
  Push(1, 0, 0, 1);
  ExpectWaits(1, 0, 1);
  EXPECT_EQ(Push(0, 0, 0, 1).size(), 3u) << "its last push is answered, and what it asked for";
  EXPECT_EQ(ToFloats(Pull(1, 0, 1)), Floats(4, 99));
  shard_.Deliver(nodes_[1], ControlFrame(record_, Op::kRetire, 1, 0, 1));
  for (const uint64_t clock : {1, 2, 3}) Push(0, 0, clock, 1);
  EXPECT_EQ(ToFloats(Pull(1, 0, 1)), Floats(4, 96));
}

TEST_F(ChangedViews, AChangeIsRefusedOnceANodeHasPushedItsClock) {
  Install("");
  PushFirstTwo(0, 0, 1);
  Push(1, 0, 1, 1);
  EXPECT_THAT(std::string(Take(Change(4, 1, {2})).message()),
              HasSubstr("node 1 has pushed chunk 0 of it already"));
  EXPECT_EQ(Count(2, 0).header.op, Op::kRetry);
  EXPECT_TRUE(Take(Change(4, 2, {2})).ok());
  EXPECT_TRUE(Take(Change(4, 2, {2})).ok()) << "it is known";
  EXPECT_EQ(Take(Change(5, 2, {}, {0})).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ChangedViews, OfAnotherJobIsRefused) {
  Install("");
  proto::ViewChange change = Change(4, 2, {2});
  change.set_job_id(8);
  EXPECT_EQ(Take(change), absl::NotFoundError("job 8 is not here"));
}

TEST_F(ChangedViews, ARecordMayComeWithChangesAlready) {
  Install("");
  *record_.add_view_changes() = Change(4, 2, {2});
  ShardHarness other;
  ASSERT_TRUE(other.core().Install(record_, ShardId(0)).ok());
  EXPECT_FALSE(other.core().NextReports().at(JobId(record_.job_id())).nodes[2].retired());
  ASSERT_TRUE(shard_.core().Install(record_, ShardId(0)).ok()) << "the same job, with news";
  EXPECT_FALSE(ClockOf(2).retired());
  record_.mutable_view_changes(0)->set_at_clock(0);
  EXPECT_FALSE(ShardHarness().core().Install(record_, ShardId(0)).ok());
}

TEST_F(ChangedViews, InLazyWhoJoinsIsNoFurtherAheadThanOthersMayBe) {
  Install("consistency { lazy { staleness: 2 } }");
  ASSERT_TRUE(Take(Change(4, 3, {2})).ok());
  ExpectWaits(2, 0, 3);
  Push(0, 0, 0, 1);
  const std::vector<Sent> answers = Push(1, 0, 0, 1);
  ASSERT_FALSE(answers.empty());
  const wire::Frame pulled = answers.back().frame;
  ASSERT_EQ(pulled.header.op, Op::kPulled);
  EXPECT_EQ(ToFloats(pulled), Floats(4, 99));
}

TEST_F(ChangedViews, OnArrivalAPushHasItsShareOfTheNodesOfItsClock) {
  Install("consistency { lazy { staleness: 2 apply: ON_ARRIVAL } }");
  ASSERT_TRUE(Take(Change(4, 1, {2})).ok());
  EXPECT_EQ(ToFloats(Push(0, 0, 0, 12)[0].frame), Floats(4, 94));
  EXPECT_EQ(ToFloats(Push(0, 0, 1, 12)[0].frame), Floats(4, 90));
}

// Its copy of the weights that answers add to is not known before.
TEST_F(ChangedViews, WhereAnswersAreEncodedTheFirstOneIsWhole) {
  Install("consistency { async {} } pull { codec: FP16 }");
  for (uint64_t clock = 0; clock < 3; ++clock) Push(0, 0, clock, 1);
  ASSERT_TRUE(Take(Change(4, 7, {2})).ok());
  const wire::Frame pulled = Pull(2, 0, 7);
  ASSERT_EQ(pulled.header.op, Op::kPulled);
  EXPECT_EQ(ToFloats(pulled), Floats(4, 97));
  Push(1, 0, 0, 1);
  const std::vector<Sent> first = Push(2, 0, 7, 1), second = Push(2, 0, 8, 1);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].frame.header.codec, wire::Codec::kNone);
  EXPECT_EQ(ToFloats(first[0].frame), Floats(4, 95));
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].frame.header.codec, wire::Codec::kFloat16);
  EXPECT_EQ(second[0].frame.header.base_version, first[0].frame.header.base_version);
}

TEST_F(ChangedViews, WithDelayCompensationTheFirstPushIsTakenAsItIs) {
  Install("consistency { async { delay_compensation { lambda: 0.5 } } }");
  Push(0, 0, 0, 1);
  ASSERT_TRUE(Take(Change(4, 5, {2})).ok());
  EXPECT_EQ(Pull(2, 0, 5).header.version, 1u);
  Push(1, 0, 0, 0);
  const std::vector<Sent> first = Push(2, 0, 5, 2, 1);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(ToFloats(first[0].frame), Floats(4, 97)) << "with no correction";
  EXPECT_EQ(Push(2, 0, 6, 2, 1)[0].frame.header.error, ErrorCode::kBeyondWindow)
      << "from then on it is";
}

TEST_F(ChangedViews, CheckpointsCountWhoHasJoinedFromItsFirstPushOn) {
  Install("consistency { lazy { staleness: 2 apply: ON_ARRIVAL } }", 2);
  ASSERT_TRUE(Take(Change(4, 3, {2})).ok());
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    for (const uint64_t clock : {0, 1}) PushFirstTwo(chunk, clock, 1);
  }
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    for (const uint64_t clock : {2, 3}) PushFirstTwo(chunk, clock, 1);
    Push(2, chunk, 3, 1);
  }
  std::vector<std::vector<uint64_t>> applied;
  for (const ShardCut& cut : shard_.core().TakeCuts()) {
    for (const ChunkImage& image : cut.images) applied.push_back(image.applied);
  }
  const std::vector<uint64_t> without = {2, 2, 2}, with = {4, 4, 4};
  EXPECT_EQ(applied, (std::vector<std::vector<uint64_t>>{without, without, with, with}));
}

TEST_F(ChangedViews, AJobWhoseNodesAreAllAbsentIsRefused) {
  Install("");
  for (proto::LogicalNode& node : *record_.mutable_view()->mutable_nodes()) node.set_absent(true);
  record_.set_job_id(9);
  EXPECT_THAT(std::string(shard_.core().Install(record_, ShardId(0)).message()),
              HasSubstr("all nodes are absent"));
}

}  // namespace
}  // namespace strata::server
