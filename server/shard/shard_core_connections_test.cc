// What a shard makes of a node's connections.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::ErrorCode;
using wire::Op;

// Two nodes with three connections each; chunks 0, 3 take the first, 1, 4 the second, 2 the third.
class ShardCoreConnections : public testing::Test {
 protected:
  ShardCoreConnections() {
    JobOptions options;
    options.elements = 20;
    options.job_text += " connections: 3";
    record_ = MakeRecord(options);
    EXPECT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    for (uint32_t node = 0; node < 2; ++node) {
      for (uint32_t i = 0; i < 3; ++i) of_[node].push_back(shard_.Join(record_, node, 1, i));
    }
    for (uint32_t chunk = 0; chunk < 5; ++chunk) {
      const wire::Frame init = InitFrame(record_, 0, chunk, {1, 2, 3, 4});
      EXPECT_EQ(shard_.DeliverForOne(of_[0][chunk % 3], init).header.op, Op::kInitOk);
    }
  }

  wire::Frame Push(uint32_t node, uint32_t chunk, uint64_t clock = 0) {
    return PushFrame(record_, node, chunk, clock, {4, 4, 4, 4}, 4, clock);
  }
  bool IsConnected(uint32_t node) {
    return shard_.core().NextReports().at(JobId(7)).nodes.at(node).connected();
  }

  proto::JobRecord record_;
  ShardHarness shard_;
  std::vector<ConnectionId> of_[2];
};

TEST_F(ShardCoreConnections, AChunksAnswersGoOverItsConnectionAndNoOther) {
  for (uint32_t chunk = 0; chunk < 5; ++chunk) {
    EXPECT_TRUE(shard_.Deliver(of_[0][chunk % 3], Push(0, chunk)).empty());
    const std::vector<Sent> answers = shard_.Deliver(of_[1][chunk % 3], Push(1, chunk));
    ASSERT_EQ(answers.size(), 2u);
    for (uint32_t node = 0; node < 2; ++node) {
      EXPECT_EQ(answers[node].connection, of_[node][chunk % 3]) << "chunk " << chunk;
      EXPECT_EQ(answers[node].frame.header.chunk, chunk);
      EXPECT_EQ(ToFloats(answers[node].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
    }
  }
}

TEST_F(ShardCoreConnections, OneMoreThanTheJobHasIsRefusedByName) {
  const wire::Frame reply = shard_.DeliverForOne(shard_.Connect(), HelloFrame(record_, 0, 1, 3));
  EXPECT_EQ(reply.header.op, Op::kError);
  EXPECT_EQ(reply.header.error, ErrorCode::kWrongConnection);
  EXPECT_EQ(shard_.core().Counters().at(JobId(7)).refused, 1u);
  EXPECT_EQ(shard_.core().refusals().at("outside the job's connections"), 1u);
}

TEST_F(ShardCoreConnections, AChunkOnAnotherConnectionThanItsOwnIsRefusedAndLeavesNoTrace) {
  const wire::Frame reply = shard_.DeliverForOne(of_[0][1], Push(0, 0));
  EXPECT_EQ(reply.header.error, ErrorCode::kWrongConnection);
  EXPECT_TRUE(shard_.Deliver(of_[0][0], Push(0, 0)).empty());
  EXPECT_EQ(shard_.Deliver(of_[1][0], Push(1, 0)).size(), 2u);
}

TEST_F(ShardCoreConnections, AConnectionIsOneOfANodesAndStaysIt) {
  const wire::Frame reply = shard_.DeliverForOne(of_[0][1], HelloFrame(record_, 0, 1, 2));
  EXPECT_EQ(reply.header.error, ErrorCode::kNoHello);
}

TEST_F(ShardCoreConnections, WhileOneIsLostTheOthersGoOnAndTheNodeIsNotConnected) {
  EXPECT_TRUE(IsConnected(0));
  shard_.Lose(of_[0][1]);
  EXPECT_FALSE(IsConnected(0));
  EXPECT_TRUE(IsConnected(1));
  shard_.Deliver(of_[1][2], Push(1, 2));
  EXPECT_EQ(shard_.Deliver(of_[0][2], Push(0, 2)).size(), 2u);
  // What it had pushed before is answered once it asks again.
  const ConnectionId again = shard_.Join(record_, 0, 1, 1);
  EXPECT_TRUE(IsConnected(0));
  shard_.Deliver(again, Push(0, 4));
  const std::vector<Sent> answers = shard_.Deliver(of_[1][1], Push(1, 4));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].connection, again);
}

TEST_F(ShardCoreConnections, ANewIncarnationOnOneFencesTheOldOneOnAll) {
  shard_.Join(record_, 0, 2, 0);
  EXPECT_EQ(shard_.DeliverForOne(of_[0][1], Push(0, 1)).header.error, ErrorCode::kFenced);
  EXPECT_FALSE(IsConnected(0)) << "its second and third are still to come";
}

}  // namespace
}  // namespace strata::server
