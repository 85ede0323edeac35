// A process that takes the place of its node's, which died: what it finds at a shard.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using Floats = std::vector<float>;
using transport::ConnectionId;
using wire::ErrorCode;
using wire::Op;

// In `received`: the chunk has no first weights; and the clock of a question for none.
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
  // Node 1's process dies, and another one takes its place.
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
  // Of clock 1 chunk 0 has both pushes, chunk 1 has node 0's.
  PushBoth(0, 1, 4);
  Push(0, 1, 1, 4);
  Replace();
  EXPECT_EQ(Count(0).header.received, 2u);
  EXPECT_EQ(Count(0).header.version, 2u);
  EXPECT_EQ(Count(1).header.received, 1u);
  ExpectGiven(0, 1, 97, 1);
  ExpectGiven(1, 1, 97, 1);
  // What both make of it: the push of before holds, and the other one is taken.
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

}  // namespace
}  // namespace strata::server
