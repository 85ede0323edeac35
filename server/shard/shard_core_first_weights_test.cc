// Jobs whose nodes all begin with the weights of the one that has rank 0.

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using wire::ErrorCode;
using wire::Op;

// Two nodes, one chunk of 4 elements.
class FirstWeights : public testing::Test {
 protected:
  FirstWeights() { Install("optimizer { sgd {} } schedule { base_lr: 1 }"); }

  void Install(const std::string& job_text) {
    record_ = MakeRecord({.elements = 4, .job_text = job_text});
    record_.set_takes_first_weights(true);
    shard_.emplace();
    ASSERT_TRUE(shard_->core().Install(record_, ShardId(0)).ok());
    a_ = shard_->Join(record_, 0);
    b_ = shard_->Join(record_, 1);
  }

  wire::Frame Ask(uint32_t node) const {
    wire::Frame ask = ControlFrame(record_, Op::kInit, node, 0, 0);
    ask.header.flags = wire::kFlagEmpty;
    return ask;
  }
  wire::Frame Push(uint32_t node, uint64_t clock) const {
    return PushFrame(record_, node, 0, clock, {1, 1, 1, 1}, 1);
  }

  proto::JobRecord record_;
  std::optional<ShardHarness> shard_;
  transport::ConnectionId a_, b_;
};

TEST_F(FirstWeights, ANodeThatAsksIsToldToComeAgainUntilTheyAreThere) {
  EXPECT_EQ(shard_->DeliverForOne(b_, Ask(1)).header.op, Op::kRetry);
  const wire::Frame kept = shard_->DeliverForOne(a_, InitFrame(record_, 0, 0, {1, 2, 3, 4}));
  EXPECT_EQ(kept.header.op, Op::kInitOk);
  EXPECT_TRUE(kept.payload.empty());
  const wire::Frame given = shard_->DeliverForOne(b_, Ask(1));
  EXPECT_EQ(given.header.op, Op::kFirst);
  EXPECT_EQ(ToFloats(given), (std::vector<float>{1, 2, 3, 4}));
}

// In async the first node does not wait for the others.
TEST_F(FirstWeights, AreThoseOfTheBeginningHoweverFarOtherNodesHaveCome) {
  Install("consistency { async {} } optimizer { sgd {} } schedule { base_lr: 1 }");
  shard_->DeliverForOne(a_, InitFrame(record_, 0, 0, {1, 2, 3, 4}));
  EXPECT_EQ(ToFloats(shard_->DeliverForOne(a_, Push(0, 0))), (std::vector<float>{0, 1, 2, 3}));
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(ToFloats(shard_->DeliverForOne(b_, Ask(1))), (std::vector<float>{1, 2, 3, 4}));
  }
  const uint64_t held = shard_->core().NextReports().at(JobId(7)).memory_bytes;
  EXPECT_EQ(ToFloats(shard_->DeliverForOne(b_, Push(1, 0))), (std::vector<float>{-1, 0, 1, 2}));
  EXPECT_LT(shard_->core().NextReports().at(JobId(7)).memory_bytes, held);
  // Nobody needs them any more; the process in another one's place goes on with what is there.
  EXPECT_EQ(ToFloats(shard_->DeliverForOne(b_, Ask(1))), (std::vector<float>{-1, 0, 1, 2}));
}

TEST_F(FirstWeights, AreOfferedByTheNodeOfRank0AndByNoOther) {
  const wire::Frame other = shard_->DeliverForOne(b_, InitFrame(record_, 1, 0, {1, 2, 3, 4}));
  EXPECT_EQ(other.header.op, Op::kError);
  EXPECT_EQ(other.header.error, ErrorCode::kConflict);
  const wire::Frame asking = shard_->DeliverForOne(a_, Ask(0));
  EXPECT_EQ(asking.header.error, ErrorCode::kConflict);
  record_.set_takes_first_weights(false);
  shard_.emplace();
  ASSERT_TRUE(shard_->core().Install(record_, ShardId(0)).ok());
  EXPECT_EQ(shard_->DeliverForOne(shard_->Join(record_, 1), Ask(1)).header.error,
            ErrorCode::kConflict);
}

}  // namespace
}  // namespace strata::server
