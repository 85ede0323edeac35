#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"

// Nodes that join a job while it trains, and leave it as planned: the view of a shard.

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
  // Clock 3 involves all three.
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

// It may have died before it retired everywhere.
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

// The weights to which its answers add are unknown before that.
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

// A process that replaces its node's, which died: the view of a shard.

// In `received`: the chunk has no first weights; also the clock of a request for none.
constexpr uint64_t kNone = UINT64_MAX;

// Two nodes of one rank with a sample each, and two chunks of 4 elements: a push of v takes v from
// each weight once both nodes have pushed it.
class ReplacedNode : public testing::Test {
 protected:
  void Install(const std::string& mode, bool seed = true) {
    record_ = MakeRecord(
        {.batch_per_rank = 1,
         .job_text = absl::StrCat("optimizer { sgd {} } schedule { base_lr: 1 } ", mode)});
    ASSERT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    for (uint32_t node = 0; node < 2; ++node) nodes_.push_back(shard_.Join(record_, node));
    for (uint32_t chunk = 0; seed && chunk < 2; ++chunk) {
      shard_.DeliverForOne(nodes_[0], InitFrame(record_, 0, chunk, Floats(4, 100)));
    }
  }
  // Node 1's process dies and is replaced.
  void Replace() {
    nodes_[1] = shard_.Join(record_, 1, ++incarnation_);
    EXPECT_GT(incarnation_, 1u);
  }
  wire::Frame Of(uint32_t node, wire::Frame frame) const {
    if (node == 1) frame.header.incarnation = incarnation_;
    return frame;
  }
  std::vector<Sent> Push(uint32_t node, uint32_t chunk, uint64_t clock, float value) {
    return shard_.Deliver(nodes_[node],
                          Of(node, PushFrame(record_, node, chunk, clock, Floats(4, value), 1)));
  }
  void PushBoth(uint32_t chunk, uint64_t clock, float value) {
    for (uint32_t node = 0; node < 2; ++node) Push(node, chunk, clock, value);
  }
  wire::Frame Say(Op op, uint32_t chunk, uint64_t clock) {
    return shard_.DeliverForOne(nodes_[1], Of(1, ControlFrame(record_, op, 1, chunk, clock)));
  }
  wire::Frame Count(uint32_t chunk) {
    wire::Frame frame = Of(1, ControlFrame(record_, Op::kPull, 1, chunk, kNone));
    frame.header.flags = wire::kFlagEmpty;
    frame = shard_.DeliverForOne(nodes_[1], frame);
    EXPECT_EQ(frame.header.op, Op::kPulled);
    EXPECT_EQ(frame.header.flags, wire::kFlagEmpty);
    EXPECT_EQ(frame.header.clock, kNone) << "whose answer it is";
    return frame;
  }
  wire::Frame Pull(uint32_t chunk, uint64_t clock) { return Say(Op::kPull, chunk, clock); }
  void ExpectWaits(uint32_t chunk, uint64_t clock) {
    const wire::Frame pull = Of(1, ControlFrame(record_, Op::kPull, 1, chunk, clock));
    EXPECT_TRUE(shard_.Deliver(nodes_[1], pull).empty()) << "chunk " << chunk;
  }
  void ExpectGiven(uint32_t chunk, uint64_t clock, float weight, uint64_t version) {
    const wire::Frame pulled = Pull(chunk, clock);
    EXPECT_EQ(pulled.header.op, Op::kPulled);
    EXPECT_EQ(pulled.header.flags, 0);
    EXPECT_EQ(pulled.header.version, version);
    EXPECT_EQ(ToFloats(pulled), Floats(4, weight)) << "chunk " << chunk << " clock " << clock;
  }

  ShardHarness shard_;
  proto::JobRecord record_;
  std::vector<ConnectionId> nodes_;
  uint32_t incarnation_ = 1;
};

constexpr char kSync[] = "replace { per_hour: 1 }";

TEST_F(ReplacedNode, IsToldThatAChunkHasNoFirstWeights) {
  Install(kSync, /*seed=*/false);
  shard_.DeliverForOne(nodes_[0], InitFrame(record_, 0, 0, Floats(4, 100)));
  Replace();
  EXPECT_EQ(Count(0).header.received, 0u);
  EXPECT_EQ(Count(1).header.received, kNone);
  EXPECT_EQ(Pull(1, 0).header.received, kNone);
}

TEST_F(ReplacedNode, MakesItsStepAgainWithTheWeightsThatTheStepBeganWith) {
  Install(kSync);
  for (uint32_t chunk = 0; chunk < 2; ++chunk) PushBoth(chunk, 0, 3);
  // Chunk 0 has both pushes of clock 1, chunk 1 has node 0's.
  PushBoth(0, 1, 4);
  Push(0, 1, 1, 4);
  Replace();
  EXPECT_EQ(Count(0).header.received, 2u);
  EXPECT_EQ(Count(0).header.version, 2u);
  EXPECT_EQ(Count(1).header.received, 1u);
  ExpectGiven(0, 1, 97, 1);
  ExpectGiven(1, 1, 97, 1);
  // Both processes push: the earlier push counts, and the other one is accepted.
  const std::vector<Sent> again = Push(1, 0, 1, 5);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].connection, nodes_[1]);
  EXPECT_EQ(ToFloats(again[0].frame), Floats(4, 93));
  const std::vector<Sent> now = Push(1, 1, 1, 4);
  ASSERT_EQ(now.size(), 2u);
  EXPECT_EQ(ToFloats(now[1].frame), Floats(4, 93));
}

TEST_F(ReplacedNode, IsGivenTheWeightsOfNowWhereItsPushWaitsForOthers) {
  Install(kSync);
  Push(1, 0, 0, 3);
  Replace();
  EXPECT_EQ(Count(0).header.received, 1u);
  ExpectGiven(0, 0, 100, 0);
  EXPECT_TRUE(Push(1, 0, 0, 9).empty()) << "it waits, too";
  const std::vector<Sent> answers = Push(0, 0, 0, 3);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].connection, nodes_[1]) << "and not the process of before";
  EXPECT_EQ(ToFloats(answers[1].frame), Floats(4, 97));
}

TEST_F(ReplacedNode, WaitsForTheClockBeforeItsStep) {
  Install(kSync);
  Push(1, 0, 0, 3);
  Replace();
  ExpectWaits(0, 1);
  const std::vector<Sent> answers = Push(0, 0, 0, 3);
  ASSERT_EQ(answers.size(), 3u) << "those of both pushes, and what node 1 waits for";
  EXPECT_EQ(answers[2].connection, nodes_[1]);
  EXPECT_EQ(answers[2].frame.header.op, Op::kPulled);
  EXPECT_EQ(ToFloats(answers[2].frame), Floats(4, 97));
  EXPECT_EQ(Push(0, 0, 1, 3).size(), 0u) << "it is given them once";
  ExpectGiven(0, 1, 97, 1);
}

TEST_F(ReplacedNode, AsksAgainWhatItWaitsForAndIsAnsweredOnce) {
  Install(kSync);
  Push(1, 0, 0, 3);
  Replace();
  for (int i = 0; i < 3; ++i) ExpectWaits(0, 1);
  EXPECT_EQ(Push(0, 0, 0, 3).size(), 3u);
}

TEST_F(ReplacedNode, WhoeverIsGoneIsGivenNothing) {
  Install(kSync);
  Push(1, 0, 0, 3);
  Replace();
  ExpectWaits(0, 1);
  shard_.Lose(nodes_[1]);
  EXPECT_EQ(Push(0, 0, 0, 3).size(), 1u);
}

TEST_F(ReplacedNode, WhoseConnectionIsOfAProcessOfBeforeIsGivenNothing) {
  Install(kSync);
  Push(1, 0, 0, 3);
  Replace();
  ExpectWaits(0, 1);
  const ConnectionId before = nodes_[1];
  Replace();
  for (const Sent& sent : Push(0, 0, 0, 3)) {
    if (sent.connection != before) continue;
    EXPECT_EQ(sent.frame.header.error, ErrorCode::kFenced);
  }
}

TEST_F(ReplacedNode, RunsAheadOfTheOthersNoFurtherThanAnyProcess) {
  Install(absl::StrCat(kSync, "consistency { lazy { staleness: 1 } }"));
  Push(1, 0, 0, 3);
  Push(1, 0, 1, 3);
  Replace();
  EXPECT_EQ(Pull(0, 1).header.op, Op::kPulled);
  ExpectWaits(0, 2);
  EXPECT_EQ(Push(0, 0, 0, 3).back().connection, nodes_[1]) << "node 0 has pushed";
  ExpectGiven(0, 2, 97, 1);
}

TEST_F(ReplacedNode, IsToldWhereItHasPushedLessAndWhereWeightsAreGone) {
  Install(kSync);
  for (uint64_t clock = 0; clock < 2; ++clock) PushBoth(0, clock, 3);
  Replace();
  for (const uint64_t clock : {0, 3}) {
    const wire::Frame pulled = Pull(0, clock);
    EXPECT_EQ(pulled.header.op, Op::kPulled);
    EXPECT_EQ(pulled.header.flags, wire::kFlagEmpty) << clock;
    EXPECT_EQ(pulled.header.received, 2u);
  }
  ExpectGiven(0, 1, 97, 1);
  ExpectGiven(0, 2, 94, 2);
}

TEST_F(ReplacedNode, AClockWithoutSamplesLeavesTheWeightsOfBeforeThere) {
  Install(kSync);
  PushBoth(0, 0, 3);
  for (uint32_t node = 0; node < 2; ++node) {
    shard_.Deliver(nodes_[node], EmptyFrame(record_, node, 0, 1, 0));
  }
  Replace();
  ExpectGiven(0, 1, 97, 1);
  ExpectGiven(0, 2, 97, 2);
}

TEST_F(ReplacedNode, TheProcessOfBeforeIsHeardNoMore) {
  Install(kSync);
  const ConnectionId before = nodes_[1];
  Replace();
  const wire::Frame refused =
      shard_.DeliverForOne(before, PushFrame(record_, 1, 0, 0, Floats(4, 3), 1));
  EXPECT_EQ(refused.header.error, ErrorCode::kFenced);
  EXPECT_EQ(Count(0).header.received, 0u);
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), HelloFrame(record_, 1)).header.error,
            ErrorCode::kFenced);
}

// It died between the shards' confirmations of its end.
TEST_F(ReplacedNode, ThatHasRetiredMakesItsLastStepAgainAndFinishes) {
  Install(kSync);
  for (uint32_t chunk = 0; chunk < 2; ++chunk) PushBoth(chunk, 0, 3);
  EXPECT_EQ(Say(Op::kRetire, 0, 1).header.op, Op::kRetireOk);
  Replace();
  EXPECT_EQ(Count(0).header.received, 1u);
  ExpectGiven(0, 0, 100, 0);
  ExpectGiven(1, 1, 97, 1);
  EXPECT_EQ(ToFloats(Push(1, 0, 0, 3).at(0).frame), Floats(4, 97));
  EXPECT_EQ(Say(Op::kRetire, 0, 1).header.op, Op::kRetireOk);
  shard_.Deliver(nodes_[0], ControlFrame(record_, Op::kRetire, 0, 0, 1));
  EXPECT_EQ(ToFloats(Say(Op::kCut, 0, 1)), Floats(4, 97));
  ExpectGiven(0, 0, 100, 0);
}

TEST_F(ReplacedNode, OfAnEncodedJobIsGivenTheCopyThatItsStepBeganWith) {
  Install("replace { per_hour: 1 } pull { codec: FP16 }");
  PushBoth(0, 0, 3);
  Replace();
  // The weights are those that nodes have, and the next answer adds to them.
  ExpectGiven(0, 0, 100, 0);
  const wire::Frame before = Pull(0, 0), now = Pull(0, 1);
  EXPECT_EQ(before.header.base_version, 0u);
  EXPECT_EQ(now.header.base_version, 1u);
  EXPECT_EQ(now.header.version, 1u);
  EXPECT_NEAR(ToFloats(now)[0], 97, 0.01);
  const wire::Frame again = Push(1, 0, 0, 3).at(0).frame;
  EXPECT_EQ(again.header.codec, wire::Codec::kNone);
  EXPECT_EQ(again.header.base_version, 1u);
  EXPECT_EQ(ToFloats(again), ToFloats(now));
}

class InexactReplacedNode : public ReplacedNode, public testing::WithParamInterface<std::string> {};

TEST_P(InexactReplacedNode, IsGivenTheNewestWeights) {
  Install(absl::StrCat(kSync, GetParam()));
  PushBoth(0, 0, 3);
  Replace();
  const wire::Frame pulled = Pull(0, 1);
  EXPECT_EQ(pulled.header.flags, 0);
  EXPECT_EQ(pulled.header.received, 1u);
  EXPECT_EQ(ToFloats(pulled), ToFloats(Push(1, 0, 0, 3).at(0).frame));
  EXPECT_EQ(Pull(0, 2).header.flags, wire::kFlagEmpty) << "it has pushed less";
}
INSTANTIATE_TEST_SUITE_P(Modes, InexactReplacedNode,
                         testing::Values("consistency { async {} }",
                                         "consistency { lazy { staleness: 1 } }",
                                         "consistency { lazy { quorum { nodes: 2 } } }"));

TEST_F(ReplacedNode, WithDelayCompensationIsGivenWhatItComputesWith) {
  Install(absl::StrCat(kSync, "consistency { async { delay_compensation {} } }"));
  Push(1, 0, 0, 3);
  const Floats given(4, 97);
  Push(0, 0, 0, 5);
  Replace();
  EXPECT_EQ(ToFloats(Pull(0, 1)), given);
}

TEST_F(ReplacedNode, OfAJobThatReplacesNoneIsRefused) {
  Install("");
  Replace();
  EXPECT_EQ(Pull(0, 0).header.error, ErrorCode::kWrongRole);
  EXPECT_EQ(shard_.core().Counters().at(JobId(7)).refused, 1u);
}

TEST_F(ReplacedNode, HasTheViewAndTheChunksOfItsShard) {
  Install(kSync);
  wire::Frame pull = ControlFrame(record_, Op::kPull, 1, 2, 0);
  EXPECT_EQ(shard_.DeliverForOne(nodes_[1], pull).header.error, ErrorCode::kWrongChunk);
  pull = ControlFrame(record_, Op::kPull, 1, 0, 0);
  pull.header.view = 4;
  EXPECT_EQ(shard_.DeliverForOne(nodes_[1], pull).header.op, Op::kRetry);
}

// Nodes and a shard over a seeded random network that drops, duplicates and reorders frames and
// cuts connections. Each push must count exactly once, and every answer must obey the job's mode.

using transport::SimEndpoint;
using wire::Frame;

constexpr uint32_t kNodes = 4;
constexpr uint32_t kChunks = 2;
constexpr uint64_t kClocks = 6;
constexpr uint32_t kExactlyOnceElements = kNodes * kClocks;  // of a chunk: one for each push
constexpr char kShard[] = "shard";
constexpr int kEventsMax = 200000;
// Connections of the test's own, besides those of the network.
constexpr uint64_t kOwnConnections = uint64_t{1} << 40;

// A node's side of one chunk.
struct NodeChunk {
  uint64_t clock = 0;  // of the current push; kClocks: done
  bool waiting = false;
  uint64_t base_version = 0;
};

struct Node {
  std::unique_ptr<SimEndpoint> endpoint;
  std::optional<ConnectionId> connection;
  bool greeted = false;
  std::vector<NodeChunk> chunks = std::vector<NodeChunk>(kChunks);
};

class Simulation {
 public:
  Simulation(const std::string& mode, uint32_t seed) : mode_(mode), network_(seed) {
    JobOptions options;
    options.ranks.assign(kNodes, 1);
    options.elements = kExactlyOnceElements * kChunks;
    options.chunk_elements = kExactlyOnceElements;
    options.batch_per_rank = 1;
    options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 } consistency { " + mode + " }";
    record_ = MakeRecord(options);
    EXPECT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    const ConnectionId first = Join(0);
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      shard_.Deliver(first,
                     InitFrame(record_, 0, chunk, std::vector<float>(kExactlyOnceElements, 0.0f)));
    }
    shard_.Lose(first);
    received_.assign(kNodes, std::vector<uint64_t>(kChunks, 0));
    network_.set_faults({.drop = 0.3, .duplicate = 0.5, .reorder = 0.5, .break_one = 0.005});
    shard_endpoint_ = Endpoint(kShard, [this] { TurnOfShard(); });
    EXPECT_TRUE(shard_endpoint_->Listen(kShard).ok());
    for (uint32_t node = 0; node < kNodes; ++node) {
      nodes_[node].endpoint = Endpoint("node", [this, node] { TurnOfNode(node); });
    }
  }

  // Runs until every push of every clock has been answered.
  void Run() {
    for (uint32_t node = 0; node < kNodes; ++node) Tick(node);
    for (int events = 0; !Done(); ++events) {
      ASSERT_LT(events, kEventsMax) << "no progress";
      ASSERT_TRUE(network_.RunOne());
      if (testing::Test::HasFailure()) return;
    }
  }

  // Each element belongs to one push and must have been updated once, to exactly one.
  void ExpectEachPushCountedOnce() {
    for (const ConnectionId connection : open_) shard_.Lose(connection);
    std::vector<ConnectionId> last;
    for (uint32_t node = 0; node < kNodes; ++node) {
      last.push_back(Join(node));
      shard_.Deliver(last[node], ControlFrame(record_, Op::kRetire, node, 0, 0));
    }
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      const Frame final =
          shard_.DeliverForOne(last[0], ControlFrame(record_, Op::kCut, 0, chunk, kClocks));
      EXPECT_EQ(ToFloats(final), std::vector<float>(kExactlyOnceElements, 1.0f))
          << "chunk " << chunk;
    }
    const ShardCounters counters = shard_.core().Counters().at(JobId(record_.job_id()));
    EXPECT_EQ(counters.pushes, kNodes * kChunks * kClocks);
    EXPECT_GT(counters.duplicates, 0u);
    EXPECT_EQ(counters.refused, 0u);
  }

 private:
  std::unique_ptr<SimEndpoint> Endpoint(const std::string& name, std::function<void()> on_ready) {
    SimEndpoint::Options options;
    options.name = name;
    options.addresses_are_names = true;
    options.on_ready = std::move(on_ready);
    return std::make_unique<SimEndpoint>(&network_, options);
  }

  // A connection of the node outside the network, opened by HELLO.
  ConnectionId Join(uint32_t node) {
    const ConnectionId connection(kOwnConnections + own_connections_++);
    const Frame answer = shard_.DeliverForOne(connection, HelloFrame(record_, node));
    EXPECT_EQ(answer.header.op, Op::kHelloOk);
    return connection;
  }

  bool Done() const {
    for (const Node& node : nodes_) {
      for (const NodeChunk& chunk : node.chunks) {
        if (chunk.clock < kClocks) return false;
      }
    }
    return true;
  }

  // Now and then a node sends HELLO, pushes, repeats its push, or reconnects.
  void Tick(uint32_t id) {
    Node& node = nodes_[id];
    if (!node.connection || network_.random().Chance(0.03)) {
      Reconnect(&node);
    }
    if (node.greeted) {
      Push(id, static_cast<uint32_t>(network_.random().Below(kChunks)));
    } else {
      Send(&node, HelloFrame(record_, id));
    }
    const absl::Duration pause =
        network_.random().Between(absl::Microseconds(50), absl::Microseconds(500));
    network_.After(pause, [this, id] { Tick(id); });
  }

  void Reconnect(Node* node) {
    if (node->connection) node->endpoint->Close(*node->connection);
    node->greeted = false;
    node->connection = *node->endpoint->Connect(kShard);
  }

  void Send(Node* node, const Frame& frame) {
    EXPECT_EQ(node->endpoint->Send(*node->connection, frame), absl::OkStatus());
  }

  // Starts the next push, or repeats the one that waits for its answer.
  void Push(uint32_t id, uint32_t chunk) {
    NodeChunk& state = nodes_[id].chunks[chunk];
    if (state.clock == kClocks) return;
    state.waiting = true;
    std::vector<float> sum(kExactlyOnceElements, 0.0f);
    // Per clock the divisor is the samples of all nodes, otherwise only this push's.
    sum[id * kClocks + state.clock] = mode_ == "async {}" ? -1.0f : -1.0f * kNodes;
    Send(&nodes_[id], PushFrame(record_, id, chunk, state.clock, sum, 1, state.base_version));
  }

  void TurnOfShard() {
    std::vector<transport::Event> events;
    shard_endpoint_->Poll(absl::InfiniteDuration(), &events);
    for (const transport::Event& event : events) {
      if (event.kind == transport::Event::Kind::kFrame) {
        open_.insert(event.connection);
        DeliverToShard(event.connection, event.frame);
      } else {
        open_.erase(event.connection);
        shard_.Lose(event.connection);
      }
    }
  }

  void DeliverToShard(ConnectionId connection, const Frame& frame) {
    const bool is_push = frame.header.op == Op::kPushPull;
    if (is_push) {
      uint64_t& received = received_[frame.header.node][frame.header.chunk];
      received = std::max(received, frame.header.clock + 1);
    }
    for (const Sent& sent : shard_.Deliver(connection, frame)) {
      if (is_push) CheckAnswer(sent.frame);
      // Frames to a closed connection are lost.
      shard_endpoint_->Send(sent.connection, sent.frame).IgnoreError();
    }
  }

  void TurnOfNode(uint32_t id) {
    Node& node = nodes_[id];
    std::vector<transport::Event> events;
    node.endpoint->Poll(absl::InfiniteDuration(), &events);
    for (const transport::Event& event : events) {
      if (event.connection != node.connection) continue;
      if (event.kind != transport::Event::Kind::kFrame) {
        node.connection.reset();
      } else if (event.frame.header.op == Op::kHelloOk) {
        node.greeted = true;
      } else {
        DeliverToNode(event.frame);
      }
    }
  }

  void CheckAnswer(const Frame& frame) {
    const wire::Header& header = frame.header;
    ASSERT_EQ(header.op, Op::kAnswer);
    uint64_t slowest = kClocks;
    for (uint32_t node = 0; node < kNodes; ++node) {
      slowest = std::min(slowest, received_[node][header.chunk]);
    }
    ASSERT_EQ(header.min_clock, slowest);
    ASSERT_EQ(header.received, received_[header.node][header.chunk]);
    if (mode_ == "sync {}") {
      ASSERT_EQ(header.version, header.clock + 1);
      ASSERT_GE(slowest, header.clock + 1);
    } else if (mode_ != "async {}") {
      ASSERT_GE(slowest + 2, header.clock + 1);
      ASSERT_LE(header.staleness, 2u);
    }
    // The answer contains the node's own push, and in sync the whole clock.
    if (mode_ == "sync {}" || mode_ == "async {}") {
      ASSERT_EQ(ToFloats(frame)[header.node * kClocks + header.clock], 1.0f);
    }
  }

  void DeliverToNode(const Frame& frame) {
    NodeChunk& state = nodes_[frame.header.node].chunks[frame.header.chunk];
    if (!state.waiting || frame.header.clock != state.clock) return;
    state.waiting = false;
    ++state.clock;
    state.base_version = frame.header.version;
  }

  const std::string mode_;
  transport::SimNetwork network_;
  proto::JobRecord record_;
  ShardHarness shard_;
  std::unique_ptr<SimEndpoint> shard_endpoint_;
  std::array<Node, kNodes> nodes_;
  std::vector<std::vector<uint64_t>> received_;  // a model of the shard's watermarks
  std::set<ConnectionId> open_;                  // that the shard knows
  uint64_t own_connections_ = 0;
};

class ShardCoreExactlyOnce : public testing::TestWithParam<std::string> {};

TEST_P(ShardCoreExactlyOnce, UnderLossDuplicationReorderingAndReconnects) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(GetParam(), seed);
    simulation.Run();
    ASSERT_FALSE(HasFailure());
    simulation.ExpectEachPushCountedOnce();
    ASSERT_FALSE(HasFailure());
  }
}

std::string ToString(const testing::TestParamInfo<std::string>& info) {
  const char* names[] = {"Sync", "Lazy", "LazyOnArrival", "Async"};
  return names[info.index];
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardCoreExactlyOnce,
                         testing::Values("sync {}", "lazy { staleness: 2 }",
                                         "lazy { staleness: 2 apply: ON_ARRIVAL }", "async {}"),
                         ToString);

}  // namespace

}  // namespace strata::server
