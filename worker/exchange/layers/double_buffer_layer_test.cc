#include "worker/exchange/layers/double_buffer_layer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();

Bytes Floats(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()),
               owner->size() * sizeof(float));
}

// An exchange of one chunk that asks for a sum as soon as it is told of it, and answers when the
// test says so.
class OneChunk final : public ExchangeCore {
 public:
  void Start(absl::Time, CoreActions*) override {}
  void OnConnected(LineId, transport::ConnectionId, absl::Time, CoreActions*) override {}
  void OnConnectFailed(LineId, const absl::Status&, absl::Time, CoreActions*) override {}
  void OnLost(transport::ConnectionId, const absl::Status&, absl::Time, CoreActions*) override {}
  void OnNotTaken(const WireAction&, absl::Time) override {}
  // Any frame: the answer to the sum in hand.
  absl::Status OnFrame(transport::ConnectionId, const wire::Frame& frame, absl::Time,
                       CoreActions* actions) override {
    actions->node.push_back({.kind = NodeAction::Kind::kDeliver,
                             .clock = sums.size() - 1,
                             .lands = true,
                             .weights = frame.payload});
    return absl::OkStatus();
  }
  absl::Status OnTime(absl::Time, CoreActions*) override { return absl::OkStatus(); }
  absl::Time deadline() const override { return absl::InfiniteFuture(); }
  const std::string& address(LineId) const override { return address_; }
  void Submit(ChunkId, CoreActions* actions) override {
    actions->node.push_back({.kind = NodeAction::Kind::kSum, .clock = sums.size()});
  }
  void Finish(uint64_t clocks, absl::Time, CoreActions*) override { finished = clocks; }
  absl::Status OnPayload(const NodeAction&, Bytes payload, uint32_t, absl::Time,
                         CoreActions*) override {
    sums.push_back(payload.floats()[0]);
    return error;
  }
  Exchange::Phase phase() const override { return Exchange::Phase::kTraining; }
  const ExchangeCounters& counters() const override { return counters_; }
  size_t memory_bytes() const override { return 0; }
  void AddActivity(absl::Time, proto::NodeActivity*) const override {}

  std::vector<float> sums;
  std::optional<uint64_t> finished;
  absl::Status error;

 private:
  const std::string address_ = "nowhere";
  ExchangeCounters counters_;
};

class DoubleBufferTest : public ::testing::Test {
 protected:
  DoubleBufferTest() {
    auto below = std::make_unique<OneChunk>();
    below_ = below.get();
    layer_ = std::make_unique<DoubleBufferLayer>(std::move(below), 1);
  }

  // The ranks have published; what the node is given then.
  std::vector<NodeAction> Publish(float sum) {
    CoreActions actions;
    layer_->Submit(ChunkId(0), &actions);
    EXPECT_EQ(actions.node.size(), 1u);
    const NodeAction asked = actions.node[0];
    EXPECT_EQ(asked.kind, NodeAction::Kind::kSum);
    EXPECT_EQ(asked.clock, clock_++);
    CoreActions given;
    status_ = layer_->OnPayload(asked, Floats({sum}), 8, kNow, &given);
    return given.node;
  }
  std::vector<NodeAction> Answer(float weight) {
    CoreActions actions;
    wire::Frame frame;
    frame.payload = Floats({weight});
    EXPECT_TRUE(layer_->OnFrame(transport::ConnectionId(1), frame, kNow, &actions).ok());
    return actions.node;
  }
  void ExpectGiven(const std::vector<NodeAction>& given, uint64_t clock, float weight) {
    ASSERT_EQ(given.size(), 1u);
    EXPECT_EQ(given[0].clock, clock);
    EXPECT_TRUE(given[0].lands);
    EXPECT_EQ(given[0].weights.floats()[0], weight);
  }

  OneChunk* below_ = nullptr;
  std::unique_ptr<DoubleBufferLayer> layer_;
  uint64_t clock_ = 0;
  absl::Status status_;
};

TEST_F(DoubleBufferTest, TheFirstStepGoesOnWithTheFirstWeights) {
  const auto given = Publish(1);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].clock, 0u);
  EXPECT_TRUE(given[0].lands);
  EXPECT_TRUE(given[0].weights.empty());
  EXPECT_EQ(below_->sums, std::vector<float>{1});
  EXPECT_TRUE(layer_->goes_on());
}

TEST_F(DoubleBufferTest, AnAnswerWaitsForTheNextPublication) {
  Publish(1);
  EXPECT_TRUE(Answer(10).empty());
  EXPECT_FALSE(layer_->goes_on());
  EXPECT_EQ(layer_->memory_bytes(), sizeof(float));
  ExpectGiven(Publish(2), 1, 10);
  EXPECT_EQ(layer_->memory_bytes(), 0u);
}

TEST_F(DoubleBufferTest, ASumWaitsForTheAnswerBefore) {
  Publish(1);
  EXPECT_TRUE(Publish(2).empty());
  EXPECT_EQ(below_->sums.size(), 1u);
  ExpectGiven(Answer(10), 1, 10);
  EXPECT_EQ(below_->sums, (std::vector<float>{1, 2}));
}

TEST_F(DoubleBufferTest, TheEndWaitsForSumsThatWaitAndGivesTheLastWeightsToNoStep) {
  Publish(1);
  Publish(2);
  CoreActions actions;
  layer_->Finish(2, kNow, &actions);
  EXPECT_FALSE(below_->finished.has_value());
  ExpectGiven(Answer(10), 1, 10);
  EXPECT_EQ(below_->finished, 2u);
  const auto last = Answer(20);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_FALSE(last[0].lands);
  EXPECT_EQ(last[0].weights.floats()[0], 20);
}

TEST_F(DoubleBufferTest, AnAnswerThatCameBeforeTheEndIsGivenThen) {
  Publish(1);
  Answer(10);
  CoreActions actions;
  layer_->Finish(1, kNow, &actions);
  EXPECT_EQ(below_->finished, 1u);
  ASSERT_EQ(actions.node.size(), 1u);
  EXPECT_FALSE(actions.node[0].lands);
  EXPECT_EQ(actions.node[0].weights.floats()[0], 10);
}

TEST_F(DoubleBufferTest, ErrorsOfTheExchangeAreTheLayers) {
  below_->error = absl::InvalidArgumentError("no sum");
  Publish(1);
  EXPECT_EQ(status_.message(), "no sum");
}

}  // namespace
}  // namespace strata::worker
