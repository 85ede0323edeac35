// Jobs that go on from a checkpoint, from their shards' point of view.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "server/shard/shard_job.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::ErrorCode;
using wire::Op;

// Two nodes, one chunk of 4 elements.
class ResumedJob : public testing::Test {
 protected:
  void Install(const std::string& job_text) {
    record_ = MakeRecord({.elements = 4, .job_text = job_text});
    record_.mutable_resume()->set_clock(6);
    job_ =
        std::make_unique<ShardJob>(*MakeShardPlan(record_, ShardId(0)), ShardCopy::kPrimary,
                                   kernels::Cpu(), pool_, &scratch_, &refusals_, &cuts_, nullptr);
    for (uint32_t node = 0; node < 2; ++node) {
      wire::Hello hello{
          .protocol = kProtocolVersion, .cluster = record_.cluster(), .token = record_.token()};
      std::vector<ShardAction> actions;
      ASSERT_TRUE(job_->OnHello(ConnectionId(node), HelloFrame(record_, node), hello,
                                absl::UnixEpoch(), &actions));
    }
  }
  // The clock is 6.
  void Restore(std::vector<float> weights, uint64_t version, std::vector<uint64_t> applied) {
    const ChunkImage image = {
        .clock = 6,
        .weights = {.version = version, .updates = version, .weights = ToBytes(weights)},
        .applied = std::move(applied)};
    ASSERT_EQ(job_->FindChunk(ChunkId(0))->Restore(image), absl::OkStatus());
  }
  // What comes back to node of `frame`.
  std::vector<wire::Frame> Deliver(const wire::Frame& frame) {
    std::vector<ShardAction> actions;
    job_->OnFrame(ConnectionId(frame.header.node), frame, absl::UnixEpoch(), &actions);
    std::vector<wire::Frame> frames;
    for (ShardAction& action : actions) {
      if (action.connection == ConnectionId(frame.header.node)) frames.push_back(action.frame);
    }
    return frames;
  }
  wire::Frame DeliverForOne(const wire::Frame& frame) {
    std::vector<wire::Frame> frames = Deliver(frame);
    EXPECT_EQ(frames.size(), 1u);
    return frames.empty() ? wire::Frame() : frames[0];
  }
  wire::Frame Ask(uint32_t node) const {
    wire::Frame ask = ControlFrame(record_, Op::kInit, node, 0, 0);
    ask.header.flags = wire::kFlagEmpty;
    return ask;
  }
  wire::Frame Push(uint32_t node, uint64_t clock, uint64_t base_version) const {
    return PushFrame(record_, node, 0, clock, {1, 1, 1, 1}, 1, base_version);
  }

  BufferPool pool_;
  kernels::EncoderScratch scratch_;
  Refusals refusals_;
  std::vector<ShardCut> cuts_;
  proto::JobRecord record_;
  std::unique_ptr<ShardJob> job_;
};

constexpr char kSync[] = "optimizer { sgd {} } schedule { base_lr: 1 }";

TEST_F(ResumedJob, GivesEveryNodeItsWeightsTheirVersionAndHowManyPushesItHas) {
  Install(kSync);
  EXPECT_EQ(DeliverForOne(Ask(0)).header.op, Op::kRetry) << "before the chunk is restored";
  Restore({1, 2, 3, 4}, 6, {});
  for (uint32_t node = 0; node < 2; ++node) {
    const wire::Frame first = DeliverForOne(Ask(node));
    EXPECT_EQ(first.header.op, Op::kFirst);
    EXPECT_EQ(ToFloats(first), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(first.header.version, 6u);
    EXPECT_EQ(first.header.received, 6u);
  }
  EXPECT_TRUE(Deliver(Push(0, 6, 6)).empty());
  EXPECT_EQ(ToFloats(DeliverForOne(Push(1, 6, 6))), (std::vector<float>{0, 1, 2, 3}));
}

// Versions count from elsewhere than clocks where the checkpoint is of another mode.
TEST_F(ResumedJob, AProcessThatTakesANodesPlaceIsGivenTheWeightsOfItsClock) {
  Install(std::string(kSync) + " replace { per_hour: 1 }");
  Restore({1, 2, 3, 4}, 11, {});
  const auto pull = [&](uint64_t clock) {
    return DeliverForOne(ControlFrame(record_, Op::kPull, 1, 0, clock));
  };
  EXPECT_EQ(ToFloats(pull(6)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(pull(5).header.flags, wire::kFlagEmpty);
  for (uint32_t node = 0; node < 2; ++node) Deliver(Push(node, 6, 11));
  EXPECT_EQ(ToFloats(pull(6)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(pull(6).header.version, 11u);
  EXPECT_EQ(ToFloats(pull(7)), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(pull(7).header.version, 12u);
}

TEST_F(ResumedJob, RefusesFirstWeightsOfAnyNode) {
  Install(kSync);
  Restore({1, 2, 3, 4}, 6, {});
  for (uint32_t node = 0; node < 2; ++node) {
    const wire::Frame refused = DeliverForOne(InitFrame(record_, node, 0, {1, 2, 3, 4}));
    EXPECT_EQ(refused.header.error, ErrorCode::kConflict);
    EXPECT_EQ(
        std::string(reinterpret_cast<const char*>(refused.payload.data()), refused.payload.size()),
        std::string("the job goes on from a checkpoint").substr(0, 4 * sizeof(float)));
  }
}

// A node that comes late is given what is there by then.
TEST_F(ResumedJob, InAsyncSaysHowManyPushesOfEachNodeAreInTheWeights) {
  Install("consistency { async {} } optimizer { sgd {} } schedule { base_lr: 1 }");
  Restore({1, 2, 3, 4}, 14, {8, 6});
  EXPECT_EQ(DeliverForOne(Ask(0)).header.received, 8u);
  // In the weights already: answered, not applied.
  for (const uint64_t clock : {6, 7}) {
    const wire::Frame again = DeliverForOne(Push(0, clock, 14));
    EXPECT_EQ(again.header.op, Op::kAnswer);
    EXPECT_EQ(again.header.clock, clock);
    EXPECT_EQ(ToFloats(again), (std::vector<float>{1, 2, 3, 4}));
  }
  EXPECT_EQ(ToFloats(DeliverForOne(Push(0, 8, 14))), (std::vector<float>{0, 1, 2, 3}));
  const wire::Frame first = DeliverForOne(Ask(1));
  EXPECT_EQ(first.header.received, 6u);
  EXPECT_EQ(first.header.version, 15u);
  EXPECT_EQ(ToFloats(first), (std::vector<float>{0, 1, 2, 3}));
}

// Which its shard corrects gradients by.
TEST_F(ResumedJob, WithDelayCompensationGivesALateNodeTheWeightsThatItsPushesAreCountedFrom) {
  Install(
      "consistency { async { delay_compensation { lambda: 0.04 } } } optimizer { sgd {} } "
      "schedule { base_lr: 1 }");
  Restore({1, 2, 3, 4}, 14, {6, 6});
  DeliverForOne(Push(0, 6, 14));
  const wire::Frame first = DeliverForOne(Ask(1));
  EXPECT_EQ(first.header.version, 14u);
  EXPECT_EQ(ToFloats(first), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(DeliverForOne(Push(1, 6, 14)).header.op, Op::kAnswer);
}

// Else pushes would look as old as the job, and their rate be damped by it.
TEST_F(ResumedJob, WhereAnswersAreEncodedTheCopyHasTheVersionOfTheWeightsThatItWasMadeOf) {
  Install(
      "consistency { async { damping: INVERSE_STALENESS } } optimizer { sgd {} } "
      "schedule { base_lr: 1 } pull { codec: FP16 }");
  Restore({1, 2, 3, 4}, 14, {6, 6});
  EXPECT_EQ(DeliverForOne(Ask(1)).header.version, 14u);
}

}  // namespace
}  // namespace strata::server
