#include "worker/exchange/server/parameter_server_core.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/exchange/testing/exchange_world.h"

namespace strata::worker {
namespace {

// Nodes that push (node + 1) * (clock + 1), on weights that begin with 100.
struct World : ExchangeWorld {
  World(uint64_t seed, const proto::JobRecord& record, const transport::SimFaults& faults)
      : ExchangeWorld(
            seed, record, faults,
            [](uint32_t node, uint64_t clock) { return (node + 1) * (clock + 1); }, 100) {}
  World(uint32_t seed, uint32_t nodes, uint32_t chunks, uint32_t shards, uint32_t window,
        const transport::SimFaults& faults, uint32_t connections = 1)
      : World(seed, WorldRecord(nodes, chunks, shards, window, connections), faults) {}
};

// Weights after `clocks` of them: 100 plus every node's sums.
float Expected(uint32_t nodes, uint64_t clocks) {
  float weight = 100;
  for (uint64_t t = 0; t < clocks; ++t) weight += nodes * (nodes + 1) / 2 * (t + 1);
  return weight;
}

// A job whose nodes begin with the weights of rank 0.
proto::JobRecord RecordOfTakers(uint32_t nodes, uint32_t chunks, uint32_t connections) {
  proto::JobRecord record = WorldRecord(nodes, chunks, 2, 3, connections);
  for (uint32_t n = 0; n < nodes; ++n) {
    record.mutable_view()->mutable_nodes(static_cast<int>(n))->set_first_rank(n);
  }
  record.set_takes_first_weights(true);
  return record;
}

// Weights landed once per (chunk, clock), see TrainingNode, and each gradient counts once.
void ExpectExactlyOnce(World& world, uint32_t chunks, uint64_t clocks) {
  const uint32_t nodes = world.nodes();
  for (uint32_t n = 0; n < nodes; ++n) {
    EXPECT_EQ(world.node(n).landed(), std::vector<uint64_t>(chunks, clocks));
    EXPECT_EQ(world.node(n).finals(), chunks);
    for (float weight : world.node(n).weights()) EXPECT_EQ(weight, Expected(nodes, clocks));
  }
  for (size_t s = 0; s < world.shards(); ++s) {
    EXPECT_TRUE(world.shard(s).faults().empty()) << world.shard(s).faults().front();
  }
}

TEST(ParameterServerCoreTest, EveryChunkIsSeededTrainedAndCutOverAFaultlessWire) {
  World world(1, 1, 7, 3, 2, {});
  ASSERT_TRUE(world.Run(4).ok());
  ExpectExactlyOnce(world, 7, 4);
  EXPECT_EQ(world.connections(), 3u);
  const ExchangeCounters counters = world.node(0).counters();
  EXPECT_EQ(counters.pushes, 28u);
  EXPECT_EQ(counters.staleness[0], 28u);
  const uint64_t bytes =
      28 * wire::kHeaderBytes + 4 * (7 * kWorldChunkElements - 1) * sizeof(float);
  EXPECT_EQ(counters.bytes_pushed, bytes);
  EXPECT_EQ(counters.bytes_answered, bytes);
}

TEST(ParameterServerCoreTest, AJobMayBeginWithTheWeightsOfRank0WhateverOtherNodesOffer) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const uint32_t nodes = 2 + seed % 3;
    World world(seed, RecordOfTakers(nodes, 9, seed % 4 == 0 ? 3 : 1),
                {.drop = 0.2, .duplicate = 0.2, .break_both = 0.02});
    absl::Status status = world.Run(3);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    for (uint32_t n = 0; n < nodes; ++n) {
      const std::vector<float>& first = world.node(n).first_weights();
      EXPECT_EQ(first, std::vector<float>(first.size(), 100.0f)) << "seed " << seed;
    }
    ExpectExactlyOnce(world, 9, 3);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(ParameterServerCoreTest, DeliversExactlyOnceThoughFramesAreLostRepeatedAndConnectionsBreak) {
  int replays = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    World world(seed, 1 + seed % 3, 9, 1 + seed % 2, 2 + seed % 3,
                {.drop = 0.2, .duplicate = 0.2, .break_both = 0.02}, seed % 4 == 0 ? 3 : 1);
    absl::Status status = world.Run(5);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    ExpectExactlyOnce(world, 9, 5);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    for (size_t s = 0; s < world.shards(); ++s) replays += world.shard(s).replays();
  }
  EXPECT_GT(replays, 1000);
}

TEST(ParameterServerCoreTest, EachShardHasTheJobsConnectionsButNoneWithoutAChunk) {
  World world(1, 2, 7, 3, 2, {}, 3);
  ASSERT_TRUE(world.Run(4).ok());
  ExpectExactlyOnce(world, 7, 4);
  EXPECT_EQ(world.connections(), 2 * (3u + 2 + 2)) << "the shards have 3, 2 and 2 chunks";
  EXPECT_EQ(world.node(1).counters().bytes_pushed,
            28 * wire::kHeaderBytes + 4 * (7 * kWorldChunkElements - 1) * sizeof(float));
}

TEST(ParameterServerCoreTest, RetryIsRepeatedLater) {
  World world(1, 1, 3, 1, 2, {});
  world.shard(0).RetryNext(20);
  ASSERT_TRUE(world.Run(2).ok());
  ExpectExactlyOnce(world, 3, 2);
}

// One node with chunks 0 to 3 on one shard, driven by hand.
class ActivityTest : public testing::Test {
 protected:
  ActivityTest() {
    CoreOptions options;
    options.record = WorldRecord(1, 4, 2, 4);
    for (int c = 0; c < 4; ++c) {  // the second shard holds nothing
      options.record.mutable_placement()->set_shard_of_chunk(c, 0);
    }
    core_ = *ParameterServerCore::Create(options, kernels::Cpu());
    EXPECT_EQ(core_->Start(now_, &actions_), absl::OkStatus());
  }

  proto::ShardActivity After(absl::Duration by) {
    now_ += by;
    proto::NodeActivity activity;
    core_->AddActivity(now_, &activity);
    EXPECT_EQ(activity.shards_size(), 1);
    return activity.shards(0);
  }
  void Hear(wire::Op op, uint32_t chunk = 0, uint64_t clock = 0) {
    wire::Frame frame;
    frame.header.op = op;
    frame.header.chunk = chunk;
    frame.header.clock = clock;
    ASSERT_TRUE(core_->OnFrame(kConnection, frame, now_, &actions_).ok());
  }
  // Gives the core the payloads that it has asked for.
  void Pay() {
    std::vector<NodeAction> asked;
    asked.swap(actions_.node);
    for (const NodeAction& action : asked) {
      EXPECT_TRUE(core_->OnPayload(action, Bytes(), {.samples = 1}, now_, &actions_).ok());
    }
  }

  static constexpr transport::ConnectionId kConnection{1};
  absl::Time now_ = absl::UnixEpoch();
  CoreActions actions_;
  std::unique_ptr<ParameterServerCore> core_;
};

TEST_F(ActivityTest, TellsSinceWhenAndWhyAServerIsNotConnected) {
  EXPECT_FALSE(After(absl::Seconds(2)).connected());
  EXPECT_EQ(After(absl::Seconds(1)).oldest_ms(), 3000);
  core_->OnConnectFailed(LinkId(0), absl::UnavailableError("refused"), now_, &actions_.wire);
  const proto::ShardActivity activity = After(absl::Seconds(1));
  EXPECT_EQ(activity.address(), "tcp://shard0");
  EXPECT_EQ(activity.oldest_ms(), 4000);
  EXPECT_EQ(activity.error(), "refused");
}

TEST_F(ActivityTest, TellsTheRequestThatHasWaitedLongest) {
  core_->OnConnected(LinkId(0), kConnection, now_, &actions_.wire);
  EXPECT_FALSE(After(absl::Seconds(1)).connected()) << "HELLO is not confirmed";
  Hear(wire::Op::kHelloOk);
  EXPECT_TRUE(After(absl::Seconds(1)).connected());
  EXPECT_EQ(After(absl::ZeroDuration()).unanswered(), 0u);
  Pay();
  EXPECT_EQ(After(absl::Seconds(1)).unanswered(), 4u) << "INIT of each chunk";
  for (uint32_t c = 0; c < 4; ++c) Hear(wire::Op::kInitOk, c);
  ASSERT_EQ(core_->phase(), Exchange::Phase::kTraining);
  EXPECT_EQ(core_->Submit(ChunkId(2), now_, &actions_), absl::OkStatus());
  Pay();
  After(absl::Seconds(3));
  EXPECT_EQ(core_->Submit(ChunkId(1), now_, &actions_), absl::OkStatus());
  Pay();
  proto::ShardActivity activity = After(absl::Seconds(4));
  EXPECT_EQ(activity.unanswered(), 2u);
  EXPECT_EQ(activity.oldest_chunk(), 2u);
  EXPECT_EQ(activity.oldest_clock(), 0u);
  EXPECT_EQ(activity.oldest_ms(), 7000);
  EXPECT_EQ(activity.error(), "");
  core_->OnLost(kConnection, absl::UnavailableError("gone"), now_, &actions_.wire);
  activity = After(absl::Seconds(1));
  EXPECT_FALSE(activity.connected());
  EXPECT_EQ(activity.oldest_ms(), 8000) << "a new connection is a part of the same wait";
  EXPECT_EQ(activity.error(), "gone");
}

TEST(ParameterServerCoreTest, WhatWasAskedOverALostConnectionIsRepeatedOverTheNextOneOnly) {
  CoreOptions options;
  options.record = WorldRecord(1, 4, 1, 4, 2);
  auto core = *ParameterServerCore::Create(options, kernels::Cpu());
  const absl::Time now = absl::UnixEpoch();
  CoreActions actions;
  EXPECT_EQ(core->Start(now, &actions), absl::OkStatus());
  const auto hear = [&](uint64_t connection, wire::Op op, uint32_t chunk) {
    wire::Frame frame;
    frame.header.op = op;
    frame.header.chunk = chunk;
    EXPECT_TRUE(core->OnFrame(transport::ConnectionId(connection), frame, now, &actions).ok());
  };
  // Asks for first weights and sums are answered.
  const auto pay = [&] {
    for (const NodeAction& action : std::exchange(actions.node, {})) {
      auto sum = std::make_shared<std::vector<float>>(kWorldChunkElements, 1.0f);
      const size_t bytes = (action.chunk == ChunkId(3) ? 3 : 4) * sizeof(float);
      const Bytes payload(sum, reinterpret_cast<const std::byte*>(sum->data()), bytes);
      EXPECT_TRUE(core->OnPayload(action, payload, {.samples = 1}, now, &actions).ok());
    }
  };
  // Connection and chunk of each PUSHPULL that has gone out.
  const auto pushed = [&] {
    std::vector<std::pair<uint64_t, uint32_t>> sent;
    for (const WireAction& action : std::exchange(actions.wire, {})) {
      if (action.frame.header.op != wire::Op::kPushPull) continue;
      sent.emplace_back(action.connection.value(), action.frame.header.chunk);
    }
    return sent;
  };
  for (uint32_t link = 0; link < 2; ++link) {
    core->OnConnected(LinkId(link), transport::ConnectionId(10 + link), now, &actions.wire);
    hear(10 + link, wire::Op::kHelloOk, 0);
  }
  pay();
  for (uint32_t chunk = 0; chunk < 4; ++chunk) hear(10 + chunk % 2, wire::Op::kInitOk, chunk);
  ASSERT_EQ(core->phase(), Exchange::Phase::kTraining);
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    EXPECT_EQ(core->Submit(ChunkId(chunk), now, &actions), absl::OkStatus());
  }
  pay();
  using Sent = std::vector<std::pair<uint64_t, uint32_t>>;
  EXPECT_EQ(pushed(), (Sent{{10, 0}, {11, 1}, {10, 2}, {11, 3}}));
  core->OnLost(transport::ConnectionId(11), absl::UnavailableError("cut"), now, &actions.wire);
  core->OnConnected(LinkId(1), transport::ConnectionId(20), now, &actions.wire);
  hear(20, wire::Op::kHelloOk, 0);
  EXPECT_EQ(pushed(), (Sent{{20, 1}, {20, 3}}));
}

TEST(ParameterServerCoreTest, ARefusedPushNamesNodeServerChunkAndClock) {
  World world(1, 1, 3, 1, 2, {});
  world.shard(0).RefusePush(2, 1, wire::ErrorCode::kNotFinite, "NaN in the sum");
  absl::Status status = world.Run(3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "node 0: server tcp://shard0 refused chunk 2 at clock 1: NaN in the sum");
}

TEST(ParameterServerCoreTest, AServerThatCannotBeReachedIsGivenUpByName) {
  World world(1, 1, 3, 2, 2, {});
  world.RemoveShards();
  absl::Status status = world.Run(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      status.message(),
      "node 0: server tcp://shard0 could not be reached for 30s (nobody listens at tcp://shard0)");
}

TEST(ParameterServerCoreTest, APlacementThatDoesNotFitTheLayoutIsRefused) {
  CoreOptions options;
  options.record = WorldRecord(1, 4, 2, 2);
  options.record.mutable_placement()->mutable_shard_of_chunk()->RemoveLast();
  absl::Status status = ParameterServerCore::Create(options, kernels::Cpu()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "placement.shard_of_chunk has 3 entries for 4 chunks");
  options.record.mutable_placement()->add_shard_of_chunk(2);
  EXPECT_FALSE(ParameterServerCore::Create(options, kernels::Cpu()).ok());
}

// One node with one chunk whose answers are bf16, driven by hand.
class EncodedAnswersTest : public testing::Test {
 protected:
  EncodedAnswersTest() {
    CoreOptions options;
    options.record = WorldRecord(1, 1, 1, 4);
    options.record.mutable_job()->mutable_pull()->set_codec(proto::Encoding::BF16);
    elements_ = static_cast<uint32_t>(options.record.layout().elements());
    core_ = *ParameterServerCore::Create(options, kernels::Cpu());
    EXPECT_EQ(core_->Start(absl::UnixEpoch(), &actions_), absl::OkStatus());
    core_->OnConnected(LinkId(0), kConnection, absl::UnixEpoch(), &actions_.wire);
    wire::Frame frame;
    for (const wire::Op op : {wire::Op::kHelloOk, wire::Op::kInitOk}) {
      Pay();
      frame.header.op = op;
      EXPECT_TRUE(Hear(frame).ok());
    }
  }

  absl::Status Hear(const wire::Frame& frame) {
    return core_->OnFrame(kConnection, frame, absl::UnixEpoch(), &actions_);
  }
  void Pay() {
    std::vector<NodeAction> asked;
    asked.swap(actions_.node);
    for (const NodeAction& action : asked) {
      EXPECT_TRUE(
          core_->OnPayload(action, Bytes(), {.samples = 1}, absl::UnixEpoch(), &actions_).ok());
    }
  }
  void Push() {
    EXPECT_EQ(core_->Submit(ChunkId(0), absl::UnixEpoch(), &actions_), absl::OkStatus());
    Pay();
  }
  wire::Frame Answer(uint64_t clock, wire::Codec codec, uint64_t base) const {
    const size_t bytes = wire::EncodedBytesMax(codec, elements_);
    const auto payload = std::make_shared<std::vector<std::byte>>(bytes);
    wire::Frame frame;
    frame.header.op = wire::Op::kAnswer;
    frame.header.codec = codec;
    frame.header.clock = clock;
    frame.header.base_version = base;
    frame.header.element_count = elements_;
    frame.payload = Bytes(payload, payload->data(), bytes);
    return frame;
  }
  // Of the one answer that has been delivered, whether it is to be added.
  bool TakeDelivery() {
    EXPECT_EQ(actions_.node.size(), 1u);
    const bool adds = !actions_.node.empty() && actions_.node[0].delta.has_value();
    actions_.node.clear();
    return adds;
  }

  static constexpr transport::ConnectionId kConnection{1};
  uint32_t elements_ = 0;
  CoreActions actions_;
  std::unique_ptr<ParameterServerCore> core_;
};

TEST_F(EncodedAnswersTest, AddToTheWeightsThatTheyWereMadeForAndToNoOthers) {
  Push();
  ASSERT_TRUE(Hear(Answer(0, wire::Codec::kBFloat16, 1)).ok());
  EXPECT_TRUE(actions_.node.empty()) << "the node has had no answer yet";
  ASSERT_TRUE(Hear(Answer(0, wire::Codec::kBFloat16, 0)).ok());
  EXPECT_TRUE(TakeDelivery());
  Push();
  ASSERT_TRUE(Hear(Answer(1, wire::Codec::kNone, 5)).ok());
  EXPECT_FALSE(TakeDelivery()) << "whole weights replace";
  Push();
  ASSERT_TRUE(Hear(Answer(2, wire::Codec::kBFloat16, 2)).ok());
  EXPECT_TRUE(actions_.node.empty()) << "the node has had five meanwhile";
  ASSERT_TRUE(Hear(Answer(2, wire::Codec::kBFloat16, 5)).ok());
  EXPECT_TRUE(TakeDelivery());
}

TEST_F(EncodedAnswersTest, OfAnotherCodecAreAnError) {
  Push();
  EXPECT_EQ(Hear(Answer(0, wire::Codec::kInt8, 0)).message(),
            "node 0: server tcp://shard0 answered chunk 0 at clock 0 with a payload of int8");
}

TEST_F(EncodedAnswersTest, ThatAreNotFiniteAreAnError) {
  Push();
  wire::Frame answer = Answer(0, wire::Codec::kBFloat16, 0);
  const auto payload = std::make_shared<std::vector<std::byte>>(2 * elements_, std::byte{0xff});
  answer.payload = Bytes(payload, payload->data(), payload->size());
  const absl::Status status = Hear(answer);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("bf16 payload"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace strata::worker
