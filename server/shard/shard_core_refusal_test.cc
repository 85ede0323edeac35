// What a frame may not be: one test for each reason to refuse it.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::ErrorCode;
using wire::Frame;
using wire::Op;

class ShardCoreRefusal : public testing::Test {
 protected:
  ShardCoreRefusal() : record_(MakeRecord({})) {
    EXPECT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    a_ = shard_.Join(record_, 0);
    b_ = shard_.Join(record_, 1);
    Seed(0);
  }

  void Seed(uint32_t chunk) {
    EXPECT_EQ(shard_.DeliverForOne(a_, InitFrame(record_, 0, chunk, kWeights)).header.op,
              Op::kInitOk);
  }
  uint64_t Refused() { return shard_.core().Counters().at(JobId(record_.job_id())).refused; }

  // The frame is refused with `code`, counted, and what the sender needs to know it by comes back.
  void ExpectRefused(ConnectionId connection, const Frame& frame, ErrorCode code) {
    const uint64_t before = Refused();
    const Frame reply = shard_.DeliverForOne(connection, frame);
    EXPECT_EQ(reply.header.op, Op::kError);
    EXPECT_EQ(reply.header.error, code) << wire::ToString(reply.header.error);
    EXPECT_EQ(reply.header.chunk, frame.header.chunk);
    EXPECT_EQ(reply.header.clock, frame.header.clock);
    EXPECT_EQ(reply.header.node, frame.header.node);
    EXPECT_EQ(Refused(), before + 1);
  }
  void ExpectRetry(ConnectionId connection, const Frame& frame) {
    const uint64_t before = Refused();
    const Frame reply = shard_.DeliverForOne(connection, frame);
    EXPECT_EQ(reply.header.op, Op::kRetry);
    EXPECT_EQ(reply.header.chunk, frame.header.chunk);
    EXPECT_EQ(reply.header.clock, frame.header.clock);
    EXPECT_EQ(Refused(), before);
  }
  // Nothing that was refused has left a trace: an ordinary clock 0 still works.
  void ExpectClockZeroStillWorks() {
    EXPECT_TRUE(shard_.Deliver(a_, Push(0)).empty());
    const auto answers = shard_.Deliver(b_, Push(1));
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(ToFloats(answers[0].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
  }
  Frame Push(uint32_t node, uint64_t clock = 0) {
    return PushFrame(record_, node, 0, clock, {4, 4, 4, 4}, 4, clock);
  }

  const std::vector<float> kWeights = {1, 2, 3, 4};
  proto::JobRecord record_;
  ShardHarness shard_;
  ConnectionId a_, b_;
};

TEST_F(ShardCoreRefusal, DataBeforeHello) {
  const ConnectionId stranger = shard_.Connect();
  const Frame reply = shard_.DeliverForOne(stranger, Push(0));
  EXPECT_EQ(reply.header.error, ErrorCode::kNoHello);
  EXPECT_EQ(shard_.core().refused(), 1u);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, HelloOfAnUnknownJob) {
  Frame hello = HelloFrame(record_, 0);
  hello.header.job = 404;
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), hello).header.error, ErrorCode::kWrongJob);
  EXPECT_EQ(shard_.core().refused(), 1u);
}

TEST_F(ShardCoreRefusal, HelloWithAnotherTokenOrCluster) {
  proto::JobRecord other = record_;
  other.set_token(1);
  ExpectRefused(shard_.Connect(), HelloFrame(other, 0), ErrorCode::kWrongJob);
  other = record_;
  other.set_cluster(1);
  ExpectRefused(shard_.Connect(), HelloFrame(other, 0), ErrorCode::kWrongJob);
}

TEST_F(ShardCoreRefusal, HelloOfAnotherProtocolVersion) {
  wire::Hello hello;
  hello.protocol = kProtocolVersion + 1;
  hello.cluster = record_.cluster();
  hello.token = record_.token();
  const auto bytes = wire::EncodeHello(hello);
  Frame frame = HelloFrame(record_, 0);
  frame.payload = Bytes(nullptr, bytes.data(), bytes.size());
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), frame).header.error, ErrorCode::kWrongVersion);
  EXPECT_EQ(shard_.core().refused(), 1u);
}

TEST_F(ShardCoreRefusal, HelloThatIsNotOne) {
  std::array<std::byte, wire::kHelloBytes> bytes = {};
  Frame frame = HelloFrame(record_, 0);
  frame.payload = Bytes(nullptr, bytes.data(), bytes.size());
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), frame).header.error, ErrorCode::kMalformed);
}

TEST_F(ShardCoreRefusal, HelloOfANodeOutsideTheView) {
  ExpectRefused(shard_.Connect(), HelloFrame(record_, 2), ErrorCode::kWrongView);
}

TEST_F(ShardCoreRefusal, HelloOfASecondNodeOrJobOnOneConnection) {
  ExpectRefused(a_, HelloFrame(record_, 1), ErrorCode::kNoHello);
  JobOptions options;
  options.job = 8;
  const proto::JobRecord other = MakeRecord(options);
  ASSERT_TRUE(shard_.core().Install(other, ShardId(0)).ok());
  ExpectRefused(a_, HelloFrame(other, 0), ErrorCode::kWrongJob);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AnOlderIncarnationOnceANewerHasSaidHello) {
  const ConnectionId newer = shard_.Join(record_, 0, 2);
  ExpectRefused(a_, Push(0), ErrorCode::kFenced);
  ExpectRefused(shard_.Connect(), HelloFrame(record_, 0, 1), ErrorCode::kFenced);
  a_ = newer;
  Frame push = Push(0);
  push.header.incarnation = 2;
  EXPECT_TRUE(shard_.Deliver(newer, push).empty());
}

TEST_F(ShardCoreRefusal, FramesOfAnotherJobNodeOrIncarnationThanHello) {
  Frame frame = Push(0);
  frame.header.job = 8;
  ExpectRefused(a_, frame, ErrorCode::kWrongJob);
  ExpectRefused(a_, Push(1), ErrorCode::kNoHello);
  frame = Push(0);
  frame.header.incarnation = 9;
  ExpectRefused(a_, frame, ErrorCode::kNoHello);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AnOlderViewIsRefusedAndANewerOneOrAnotherGenerationRetried) {
  for (Frame frame : {Push(0), HelloFrame(record_, 0)}) {
    frame.header.view = 2;
    ExpectRefused(a_, frame, ErrorCode::kWrongView);
    frame.header.view = 4;
    ExpectRetry(a_, frame);
    frame.header.view = 3;
    frame.header.generation = 1;
    ExpectRetry(a_, frame);  // the node will hear where the shard lies now
    frame.header.generation = 3;
    ExpectRetry(a_, frame);
  }
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, OpsThatOnlyServersSend) {
  for (Op op : {Op::kHelloOk, Op::kInitOk, Op::kAnswer, Op::kCutAnswer, Op::kRetireOk, Op::kRetry,
                Op::kPulled, Op::kError}) {
    ExpectRefused(a_, ControlFrame(record_, op, 0, 0, 0), ErrorCode::kWrongRole);
  }
}

TEST_F(ShardCoreRefusal, ChunksThatAreNotHereOrHaveAnotherSize) {
  ExpectRefused(a_, PushFrame(record_, 0, 2, 0, {1, 2, 3, 4}, 4), ErrorCode::kWrongChunk);
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {1, 2, 3}, 4), ErrorCode::kWrongChunk);
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {}, 4), ErrorCode::kWrongChunk);
  ExpectRefused(a_, InitFrame(record_, 0, 1, {1, 2, 3, 4, 5}), ErrorCode::kWrongChunk);
  ExpectRefused(a_, ControlFrame(record_, Op::kCut, 0, 2, 0), ErrorCode::kWrongChunk);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AChunkOfAnotherShard) {
  JobOptions options;
  options.job = 9;
  options.shards = 2;
  const proto::JobRecord record = MakeRecord(options);
  ASSERT_TRUE(shard_.core().Install(record, ShardId(1)).ok());
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), HelloFrame(record, 0)).header.error,
            ErrorCode::kWrongJob);
  const ConnectionId node = shard_.Join(record, 0, 1, 0, 1);
  EXPECT_EQ(shard_.DeliverForOne(node, InitFrame(record, 0, 0, kWeights)).header.error,
            ErrorCode::kWrongChunk);
  EXPECT_EQ(shard_.DeliverForOne(node, InitFrame(record, 0, 1, kWeights)).header.op, Op::kInitOk);
}

TEST_F(ShardCoreRefusal, PushesAndCutsBeforeInitAreRetried) {
  ExpectRetry(a_, PushFrame(record_, 0, 1, 0, {1, 2, 3, 4}, 4));
  ExpectRetry(a_, ControlFrame(record_, Op::kCut, 0, 1, 0));
  Seed(1);
  EXPECT_TRUE(shard_.Deliver(a_, PushFrame(record_, 0, 1, 0, {1, 2, 3, 4}, 4)).empty());
}

TEST_F(ShardCoreRefusal, ASecondInitWithOtherWeights) {
  ExpectRefused(b_, InitFrame(record_, 1, 0, {1, 2, 3, 5}), ErrorCode::kConflict);
  EXPECT_EQ(shard_.DeliverForOne(b_, InitFrame(record_, 1, 0, kWeights)).header.op, Op::kInitOk);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AClockAheadOfTheNextOrASecondUnansweredPush) {
  ExpectRefused(a_, Push(0, 1), ErrorCode::kBeyondWindow);
  ExpectRefused(a_, Push(0, std::numeric_limits<uint64_t>::max()), ErrorCode::kBeyondWindow);
  EXPECT_TRUE(shard_.Deliver(a_, Push(0)).empty());
  ExpectRefused(a_, PushFrame(record_, 0, 0, 1, {4, 4, 4, 4}, 4), ErrorCode::kBeyondWindow);
  EXPECT_EQ(shard_.Deliver(b_, Push(1)).size(), 2u);
}

TEST_F(ShardCoreRefusal, ABaseVersionThatDoesNotExistYet) {
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {4, 4, 4, 4}, 4, 1), ErrorCode::kBeyondWindow);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, ADuplicateWithAnotherContentOfTheSameProcess) {
  EXPECT_TRUE(shard_.Deliver(a_, Push(0)).empty());
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {4, 4, 4, 5}, 4), ErrorCode::kConflict);
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {4, 4, 4, 4}, 5), ErrorCode::kConflict);
  // Of a new process the first value wins, because a replay need not repeat its bits.
  const ConnectionId newer = shard_.Join(record_, 0, 2);
  Frame replay = PushFrame(record_, 0, 0, 0, {4, 4, 4, 5}, 4);
  replay.header.incarnation = 2;
  EXPECT_TRUE(shard_.Deliver(newer, replay).empty());
  const auto answers = shard_.Deliver(b_, Push(1));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].connection, newer);
  EXPECT_EQ(ToFloats(answers[0].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
}

TEST_F(ShardCoreRefusal, NanOrInfinityInAPushOrInFirstWeights) {
  const float kBad[] = {NAN, -NAN, INFINITY, -INFINITY};
  uint64_t clock = 0;
  for (float bad : kBad) {
    ExpectRefused(a_, InitFrame(record_, 0, 1, {bad, 0, 0, 0}), ErrorCode::kNotFinite);
    EXPECT_TRUE(shard_.Deliver(a_, Push(0, clock)).empty());
    ExpectRefused(b_, PushFrame(record_, 1, 0, clock, {4, 4, bad, 4}, 4, clock),
                  ErrorCode::kNotFinite);
    // The good one stays, the bad one may come again.
    const auto answers = shard_.Deliver(b_, Push(1, clock));
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(ToFloats(answers[0].frame)[0], 1.0f - 0.5f * ++clock);
  }
}

// It is looked at when it is added: the node that brought it is told, not the one that came last.
TEST_F(ShardCoreRefusal, NanInAPushThatWaitsForOthers) {
  EXPECT_TRUE(shard_.Deliver(a_, PushFrame(record_, 0, 0, 0, {4, NAN, 4, 4}, 4)).empty());
  const uint64_t before = Refused();
  const auto errors = shard_.Deliver(b_, Push(1));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].connection, a_);
  EXPECT_EQ(errors[0].frame.header.op, Op::kError);
  EXPECT_EQ(errors[0].frame.header.error, ErrorCode::kNotFinite);
  EXPECT_EQ(errors[0].frame.header.node, 0u);
  EXPECT_EQ(Refused(), before + 1);
  const auto answers = shard_.Deliver(a_, Push(0));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(ToFloats(answers[1].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
}

TEST_F(ShardCoreRefusal, NanInThePushesOfBothNodes) {
  EXPECT_TRUE(shard_.Deliver(a_, PushFrame(record_, 0, 0, 0, {4, NAN, 4, 4}, 4)).empty());
  const auto errors = shard_.Deliver(b_, PushFrame(record_, 1, 0, 0, {4, 4, 4, INFINITY}, 4));
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].connection, b_);
  EXPECT_EQ(errors[1].connection, a_);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, NanBesideNodesThatHaveNoSamples) {
  EXPECT_TRUE(shard_.Deliver(a_, PushFrame(record_, 0, 0, 0, {4, NAN, 4, 4}, 4)).empty());
  const auto errors = shard_.Deliver(b_, EmptyFrame(record_, 1, 0, 0, 0));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].connection, a_);
  EXPECT_EQ(errors[0].frame.header.error, ErrorCode::kNotFinite);
  const auto answers = shard_.Deliver(a_, Push(0));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(ToFloats(answers[0].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
}

// Where a push is applied, or answered, before others come, it is looked at when it comes.
TEST_F(ShardCoreRefusal, NanWhereAPushIsAnsweredBeforeTheOthersCome) {
  uint32_t job = 20;
  for (const char* mode :
       {"consistency { lazy { staleness: 1 } }", "consistency { async {} }", "order: RING"}) {
    const proto::JobRecord record =
        MakeRecord({.job = job++, .job_text = absl::StrCat("optimizer { sgd {} } ", mode)});
    ASSERT_TRUE(shard_.core().Install(record, ShardId(0)).ok()) << mode;
    const ConnectionId node = shard_.Join(record, 0);
    shard_.Deliver(node, InitFrame(record, 0, 0, kWeights));
    const Frame reply =
        shard_.DeliverForOne(node, PushFrame(record, 0, 0, 0, {4, 4, -INFINITY, 4}, 4));
    EXPECT_EQ(reply.header.error, ErrorCode::kNotFinite) << mode;
  }
}

TEST_F(ShardCoreRefusal, TheErrorOfAPushNamesNodeChunkAndClock) {
  proto::JobRecord record = MakeRecord({.job = 12, .elements = 64, .chunk_elements = 64});
  ASSERT_TRUE(shard_.core().Install(record, ShardId(0)).ok());
  const ConnectionId other = shard_.Join(record, 0), node = shard_.Join(record, 1);
  shard_.Deliver(node, InitFrame(record, 1, 0, std::vector<float>(64)));
  shard_.Deliver(node, PushFrame(record, 1, 0, 0, std::vector<float>(64, NAN), 4));
  const auto sent = shard_.Deliver(other, PushFrame(record, 0, 0, 0, std::vector<float>(64), 4));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].connection, node);
  const Frame& reply = sent[0].frame;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(reply.payload.data()), reply.payload.size()),
            "node 1 chunk 0 clock 0: NaN or infinity");
}

TEST_F(ShardCoreRefusal, ASumWithoutSamples) {
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {4, 4, 4, 4}, 0), ErrorCode::kMalformed);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AMalformedFrameIsAnsweredWithAHeaderOnlyAndCounted) {
  std::vector<ShardAction> actions;
  shard_.core().OnMalformed(a_, &actions);
  shard_.core().OnMalformed(shard_.Connect(), &actions);
  ASSERT_EQ(actions.size(), 2u);
  for (const ShardAction& action : actions) {
    EXPECT_EQ(action.frame.header.error, ErrorCode::kMalformed);
    EXPECT_TRUE(action.frame.payload.empty());
  }
  EXPECT_EQ(Refused(), 1u);
  EXPECT_EQ(shard_.core().refused(), 1u);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, EachIsCountedByItsCauseAndOutlivesItsJob) {
  shard_.DeliverForOne(shard_.Connect(), Push(0));
  Frame hello = HelloFrame(record_, 0);
  hello.header.job = 404;
  shard_.DeliverForOne(shard_.Connect(), hello);
  proto::JobRecord other = record_;
  other.set_token(1);
  shard_.DeliverForOne(shard_.Connect(), HelloFrame(other, 0));
  shard_.DeliverForOne(a_, HelloFrame(record_, 1));
  shard_.DeliverForOne(a_, Push(1));
  Frame frame = Push(0);
  frame.header.job = 8;
  shard_.DeliverForOne(a_, frame);
  frame = Push(0);
  frame.header.chunk = 99;
  shard_.DeliverForOne(a_, frame);
  std::vector<ShardAction> actions;
  shard_.core().OnMalformed(a_, &actions);
  shard_.core().Remove(JobId(record_.job_id()), &actions);
  EXPECT_EQ(shard_.core().refusals(), (Refusals{{"another job than HELLO's", 1},
                                                {"another node than HELLO's", 2},
                                                {"before HELLO", 1},
                                                {"chunk outside the job", 1},
                                                {"malformed", 1},
                                                {"unknown job", 1},
                                                {"wrong token or cluster", 1}}));
}

}  // namespace
}  // namespace strata::server
