// A node's process that takes the place of one that died, frame by frame. With real shards:
// tests/exchange/replaced_nodes_test.cc.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/exchange/create_exchange.h"
#include "worker/exchange/testing/exchange_world.h"

namespace strata::worker {
namespace {

using transport::ConnectionId;
using wire::Frame;
using wire::Op;

constexpr uint64_t kNone = UINT64_MAX;
constexpr uint32_t kElements = kWorldChunkElements;

// A job of two chunks on one shard, which the test plays.
class RejoinTest : public testing::Test {
 protected:
  void Begin(uint32_t node = 0, bool takes_first_weights = false) {
    options_.record = WorldRecord(2, 2, 1, 4);
    options_.record.mutable_layout()->set_elements(2 * kElements);
    options_.record.mutable_view()->mutable_nodes(1)->set_first_rank(1);
    options_.record.set_takes_first_weights(takes_first_weights);
    options_.record.mutable_job()->mutable_replace()->set_per_hour(1);
    options_.record.mutable_job()->mutable_pull()->set_codec(pull_);
    options_.node = NodeId(node);
    options_.incarnation = 2;
    core_ = *CreateExchangeCore(options_);
    ASSERT_TRUE(core_->Start(now_, &actions_).ok());
    core_->OnConnected(LinkId(0), ConnectionId(1), now_, &actions_.wire);
    Frame hello;
    hello.header.op = Op::kHelloOk;
    ASSERT_TRUE(core_->OnFrame(ConnectionId(1), hello, now_, &actions_).ok());
  }
  // What the core has said since, by chunk.
  std::map<uint32_t, wire::Header> Said() {
    std::map<uint32_t, wire::Header> said;
    for (const WireAction& action : actions_.wire) {
      const wire::Header& header = action.frame.header;
      if (action.kind != WireAction::Kind::kSend || header.op == Op::kHello) continue;
      EXPECT_EQ(header.incarnation, 2u);
      said[header.chunk] = header;
    }
    actions_.wire.clear();
    return said;
  }
  void ExpectPulls(uint64_t clock) {
    const auto said = Said();
    ASSERT_EQ(said.size(), 2u);
    for (const auto& [chunk, header] : said) {
      EXPECT_EQ(header.op, Op::kPull);
      EXPECT_EQ(header.clock, clock);
      EXPECT_EQ(header.flags, clock == kNone ? wire::kFlagEmpty : 0);
    }
  }
  absl::Status Answer(uint32_t chunk, uint64_t clock, uint64_t received, bool gives,
                      uint32_t elements = kElements) {
    Frame frame;
    frame.header.op = Op::kPulled;
    frame.header.chunk = chunk;
    frame.header.clock = clock;
    frame.header.received = received;
    frame.header.version = received;
    frame.header.base_version = answers_;
    if (gives) {
      frame.header.element_count = elements;
      frame.payload = Bytes(nullptr, reinterpret_cast<const std::byte*>(weights_.data()),
                            elements * sizeof(float));
    } else {
      frame.header.flags = wire::kFlagEmpty;
    }
    return core_->OnFrame(ConnectionId(1), frame, now_, &actions_);
  }
  absl::Status Count(uint32_t chunk, uint64_t received) {
    return Answer(chunk, kNone, received, false);
  }

  const absl::Time now_ = absl::UnixEpoch();
  const std::vector<float> weights_ = std::vector<float>(kElements, 5.0f);
  proto::Encoding::Codec pull_ = proto::Encoding::FP32;
  uint64_t answers_ = 0;  // that the weights have
  CoreOptions options_;
  std::unique_ptr<ExchangeCore> core_;
  CoreActions actions_;
};

TEST_F(RejoinTest, BeginsWithTheLeastClockAndItsWeights) {
  Begin();
  ExpectPulls(kNone);
  EXPECT_TRUE(Count(0, 7).ok());
  EXPECT_TRUE(Count(1, 6).ok());
  ExpectPulls(6);
  EXPECT_TRUE(Count(1, 6).ok()) << "an echo";
  EXPECT_TRUE(Answer(0, 6, 7, true).ok());
  EXPECT_EQ(core_->phase(), Exchange::Phase::kSeeding);
  EXPECT_TRUE(Answer(1, 6, 6, true).ok());
  EXPECT_EQ(core_->phase(), Exchange::Phase::kTraining);
  EXPECT_EQ(core_->first_clock(), 6u);
  ASSERT_EQ(actions_.node.size(), 2u);
  for (const NodeAction& action : actions_.node) {
    EXPECT_EQ(action.kind, NodeAction::Kind::kDeliverFirst);
    EXPECT_EQ(action.weights.floats()[0], 5.0f);
  }
  actions_ = {};
  EXPECT_TRUE(core_->Submit(ChunkId(0), now_, &actions_).ok());
  ASSERT_EQ(actions_.node.size(), 1u);
  EXPECT_EQ(actions_.node[0].clock, 6u);
}

// An answer that adds to other weights is dropped; one to these is looked at, and this one is none.
TEST_F(RejoinTest, TakesEncodedAnswersThatAddToTheWeightsThatItWasGiven) {
  pull_ = proto::Encoding::FP16;
  answers_ = 4;
  Begin();
  for (const uint32_t chunk : {0, 1}) EXPECT_TRUE(Count(chunk, 6).ok());
  for (const uint32_t chunk : {0, 1}) EXPECT_TRUE(Answer(chunk, 6, 6, true).ok());
  actions_ = {};
  EXPECT_TRUE(core_->Submit(ChunkId(0), now_, &actions_).ok());
  const Bytes sum(nullptr, reinterpret_cast<const std::byte*>(weights_.data()),
                  kElements * sizeof(float));
  EXPECT_TRUE(core_->OnPayload(actions_.node.at(0), sum, {.samples = 1}, now_, &actions_).ok());
  Frame answer;
  answer.header.op = Op::kAnswer;
  answer.header.clock = 6;
  answer.header.codec = wire::Codec::kFloat16;
  answer.header.element_count = kElements;
  answer.header.base_version = 3;
  EXPECT_EQ(core_->OnFrame(ConnectionId(1), answer, now_, &actions_), absl::OkStatus());
  answer.header.base_version = 4;
  EXPECT_EQ(core_->OnFrame(ConnectionId(1), answer, now_, &actions_).code(),
            absl::StatusCode::kInternal);
}

TEST_F(RejoinTest, GoesBackWhereAServerHasLostAPush) {
  Begin();
  EXPECT_TRUE(Count(0, 7).ok());
  EXPECT_TRUE(Count(1, 7).ok());
  ExpectPulls(7);
  EXPECT_TRUE(Answer(0, 7, 7, true).ok());
  EXPECT_TRUE(Answer(1, 7, 6, false).ok());
  ExpectPulls(6);
  EXPECT_TRUE(Answer(0, 6, 7, true).ok());
  EXPECT_TRUE(Answer(1, 6, 6, true).ok());
  EXPECT_EQ(core_->phase(), Exchange::Phase::kTraining);
  EXPECT_EQ(core_->first_clock(), 6u);
}

TEST_F(RejoinTest, OffersOrAsksForFirstWeightsWhereThereAreNone) {
  for (const uint32_t node : {0, 1}) {
    actions_ = {};
    Begin(node, /*takes_first_weights=*/true);
    EXPECT_TRUE(Count(0, 0).ok());
    Said();
    EXPECT_TRUE(Count(1, kNone).ok());
    Frame answer;
    if (node == 0) {
      ASSERT_EQ(actions_.node.size(), 1u);
      EXPECT_EQ(actions_.node[0].kind, NodeAction::Kind::kFirstWeights);
      const Bytes own(nullptr, reinterpret_cast<const std::byte*>(weights_.data()),
                      kElements * sizeof(float));
      EXPECT_TRUE(core_->OnPayload(actions_.node[0], own, {}, now_, &actions_).ok());
      answer.header.op = Op::kInitOk;
    } else {
      answer.header.op = Op::kFirst;
      answer.header.element_count = kElements;
      answer.payload = Bytes(nullptr, reinterpret_cast<const std::byte*>(weights_.data()),
                             kElements * sizeof(float));
    }
    EXPECT_EQ(Said().at(1).op, Op::kInit);
    answer.header.chunk = 1;
    EXPECT_TRUE(core_->OnFrame(ConnectionId(1), answer, now_, &actions_).ok());
    EXPECT_EQ(Said().at(1).clock, kNone);
    EXPECT_TRUE(Count(1, 0).ok());
    ExpectPulls(0);
  }
}

TEST_F(RejoinTest, FailsInOneLineWhereTheWeightsOfItsClockAreGone) {
  Begin();
  EXPECT_TRUE(Count(0, 6).ok());
  EXPECT_TRUE(Count(1, 9).ok());
  EXPECT_EQ(Answer(1, 6, 9, false),
            absl::FailedPreconditionError(
                "node 0: server tcp://shard0 does not have the weights of chunk 1 from before "
                "clock 6 any more, so that this process cannot take the place of the one that died "
                "there"));
}

TEST_F(RejoinTest, WeightsOfAnotherLengthAreAnError) {
  Begin();
  EXPECT_TRUE(Count(0, 6).ok());
  EXPECT_TRUE(Count(1, 6).ok());
  EXPECT_EQ(Answer(1, 6, 6, true, kElements - 1).code(), absl::StatusCode::kInternal);
}

// What a lossy codec has left out is in no checkpoint that holds for it.
TEST_F(RejoinTest, GoesOnFromNoPartOfACheckpoint) {
  options_.record = WorldRecord(1, 2, 1, 4);
  options_.record.mutable_resume()->set_clock(6);
  options_.record.mutable_job()->mutable_push()->set_codec(proto::Encoding::INT8);
  options_.incarnation = 2;
  EXPECT_FALSE(CreateExchangeCore(options_).ok());
  options_.record.mutable_job()->mutable_replace()->set_per_hour(1);
  EXPECT_EQ(CreateExchangeCore(options_).status(), absl::OkStatus());
}

// An incarnation of a job that replaces nobody begins as the first one did.
TEST_F(RejoinTest, OnlyInJobsThatReplaceNodes) {
  options_.record = WorldRecord(1, 2, 1, 4);
  options_.incarnation = 2;
  core_ = *CreateExchangeCore(options_);
  ASSERT_TRUE(core_->Start(now_, &actions_).ok());
  ASSERT_EQ(actions_.node.size(), 2u);
  EXPECT_EQ(actions_.node[0].kind, NodeAction::Kind::kFirstWeights);
}

}  // namespace
}  // namespace strata::worker
