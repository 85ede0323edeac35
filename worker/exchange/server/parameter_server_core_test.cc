#include "worker/exchange/server/parameter_server_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/exchange/create_exchange.h"
#include "worker/testing/exchange_world.h"

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
    EXPECT_EQ(core_->OnLinkEvent(LinkEvent::Start(), now_, &actions_), absl::OkStatus());
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
    ASSERT_TRUE(core_->OnLinkEvent(LinkEvent::Frame(kConnection, frame), now_, &actions_).ok());
  }
  // Gives the core the payloads that it has requested.
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
  EXPECT_EQ(
      core_->OnLinkEvent(LinkEvent::ConnectFailed(LinkId(0), absl::UnavailableError("refused")),
                         now_, &actions_),
      absl::OkStatus());
  const proto::ShardActivity activity = After(absl::Seconds(1));
  EXPECT_EQ(activity.address(), "tcp://shard0");
  EXPECT_EQ(activity.oldest_ms(), 4000);
  EXPECT_EQ(activity.error(), "refused");
}

TEST_F(ActivityTest, TellsTheRequestThatHasWaitedLongest) {
  EXPECT_EQ(core_->OnLinkEvent(LinkEvent::Connected(LinkId(0), kConnection), now_, &actions_),
            absl::OkStatus());
  EXPECT_FALSE(After(absl::Seconds(1)).connected()) << "HELLO is not confirmed";
  Hear(wire::Op::kHelloOk);
  EXPECT_TRUE(After(absl::Seconds(1)).connected());
  EXPECT_EQ(After(absl::ZeroDuration()).unanswered(), 0u);
  Pay();
  EXPECT_EQ(After(absl::Seconds(1)).unanswered(), 4u) << "INIT of each chunk";
  for (uint32_t c = 0; c < 4; ++c) Hear(wire::Op::kInitOk, c);
  ASSERT_EQ(core_->phase(), ExchangeCore::Phase::kTraining);
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
  EXPECT_EQ(core_->OnLinkEvent(LinkEvent::Lost(kConnection, absl::UnavailableError("gone")), now_,
                               &actions_),
            absl::OkStatus());
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
  EXPECT_EQ(core->OnLinkEvent(LinkEvent::Start(), now, &actions), absl::OkStatus());
  const auto hear = [&](uint64_t connection, wire::Op op, uint32_t chunk) {
    wire::Frame frame;
    frame.header.op = op;
    frame.header.chunk = chunk;
    EXPECT_TRUE(core->OnLinkEvent(LinkEvent::Frame(transport::ConnectionId(connection), frame), now,
                                  &actions)
                    .ok());
  };
  // Answers requests for first weights and sums.
  const auto pay = [&] {
    for (const NodeAction& action : std::exchange(actions.node, {})) {
      auto sum = std::make_shared<std::vector<float>>(kWorldChunkElements, 1.0f);
      const size_t bytes = (action.chunk == ChunkId(3) ? 3 : 4) * sizeof(float);
      const Bytes payload(sum, reinterpret_cast<const std::byte*>(sum->data()), bytes);
      EXPECT_TRUE(core->OnPayload(action, payload, {.samples = 1}, now, &actions).ok());
    }
  };
  // Returns connection and chunk of each PUSHPULL that was sent.
  const auto pushed = [&] {
    std::vector<std::pair<uint64_t, uint32_t>> sent;
    for (const WireAction& action : std::exchange(actions.wire, {})) {
      if (action.frame.header.op != wire::Op::kPushPull) continue;
      sent.emplace_back(action.connection.value(), action.frame.header.chunk);
    }
    return sent;
  };
  for (uint32_t link = 0; link < 2; ++link) {
    EXPECT_EQ(
        core->OnLinkEvent(LinkEvent::Connected(LinkId(link), transport::ConnectionId(10 + link)),
                          now, &actions),
        absl::OkStatus());
    hear(10 + link, wire::Op::kHelloOk, 0);
  }
  pay();
  for (uint32_t chunk = 0; chunk < 4; ++chunk) hear(10 + chunk % 2, wire::Op::kInitOk, chunk);
  ASSERT_EQ(core->phase(), ExchangeCore::Phase::kTraining);
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    EXPECT_EQ(core->Submit(ChunkId(chunk), now, &actions), absl::OkStatus());
  }
  pay();
  using Sent = std::vector<std::pair<uint64_t, uint32_t>>;
  EXPECT_EQ(pushed(), (Sent{{10, 0}, {11, 1}, {10, 2}, {11, 3}}));
  EXPECT_EQ(
      core->OnLinkEvent(LinkEvent::Lost(transport::ConnectionId(11), absl::UnavailableError("cut")),
                        now, &actions),
      absl::OkStatus());
  EXPECT_EQ(core->OnLinkEvent(LinkEvent::Connected(LinkId(1), transport::ConnectionId(20)), now,
                              &actions),
            absl::OkStatus());
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
    EXPECT_EQ(core_->OnLinkEvent(LinkEvent::Start(), absl::UnixEpoch(), &actions_),
              absl::OkStatus());
    EXPECT_EQ(core_->OnLinkEvent(LinkEvent::Connected(LinkId(0), kConnection), absl::UnixEpoch(),
                                 &actions_),
              absl::OkStatus());
    wire::Frame frame;
    for (const wire::Op op : {wire::Op::kHelloOk, wire::Op::kInitOk}) {
      Pay();
      frame.header.op = op;
      EXPECT_TRUE(Hear(frame).ok());
    }
  }

  absl::Status Hear(const wire::Frame& frame) {
    return core_->OnLinkEvent(LinkEvent::Frame(kConnection, frame), absl::UnixEpoch(), &actions_);
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
  // Returns whether the one delivered answer is a delta.
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

// A job whose chunk 0 is on server a, chunk 1 on b, that resumes from a checkpoint of clock 4.
proto::JobRecord ResumeClockRecord() {
  proto::JobRecord record;
  record.mutable_resume()->set_clock(4);
  for (const char* server : {"a", "b"}) record.mutable_placement()->add_shard_endpoints(server);
  for (const uint32_t shard : {0, 1}) record.mutable_placement()->add_shard_of_chunk(shard);
  return record;
}

TEST(ResumeClockTest, IsTheLeastOfTheChunksWhereTheyMayDiffer) {
  proto::JobRecord record = ResumeClockRecord();
  record.mutable_job()->mutable_consistency()->mutable_async();
  EXPECT_EQ(*FindResumeClock(record, std::vector<uint64_t>{7, 5}), 5u);
}

TEST(ResumeClockTest, IsTheCheckpointsWhereNodesOrRanksKeepStateOfThatClock) {
  proto::JobRecord record = ResumeClockRecord();
  record.mutable_job()->mutable_consistency()->mutable_async();
  record.set_ranks_keep_state(true);
  EXPECT_EQ(*FindResumeClock(record, std::vector<uint64_t>{7, 5}), 4u);
  record.set_ranks_keep_state(false);
  record.mutable_job()->mutable_push()->set_codec(proto::Encoding::ONE_BIT);
  EXPECT_EQ(*FindResumeClock(record, std::vector<uint64_t>{7, 5}), 4u);
}

TEST(ResumeClockTest, ACheckpointThatLacksPushesBeforeItsClockIsRefused) {
  proto::JobRecord record = ResumeClockRecord();
  record.mutable_job()->mutable_consistency()->mutable_async();
  record.set_ranks_keep_state(true);
  EXPECT_EQ(FindResumeClock(record, std::vector<uint64_t>{4, 3}).status(),
            absl::FailedPreconditionError("the job goes on from a checkpoint of clock 4, which has "
                                          "3 pushes of this node only"));
}

TEST(ResumeClockTest, ChunksThatMayNotDifferAreNamed) {
  proto::JobRecord record = ResumeClockRecord();
  record.mutable_job()->mutable_consistency()->mutable_sync();
  EXPECT_EQ(*FindResumeClock(record, std::vector<uint64_t>{4, 4}), 4u);
  EXPECT_EQ(FindResumeClock(record, std::vector<uint64_t>{4, 5}).status(),
            absl::FailedPreconditionError("the job goes on from a checkpoint at clock 4 with chunk "
                                          "0 (server a), but at clock 5 with chunk 1 (server b)"));
}

// Jobs that resume from a checkpoint: the view of their nodes.

using ::testing::HasSubstr;

constexpr uint32_t kChunkElements = 4, kChunks = 5, kShards = 2;
constexpr uint64_t kFirst = 6, kClocks = 9;

proto::JobRecord ResumeRecord(uint32_t nodes) {
  proto::JobRecord record;
  record.set_job_id(3);
  record.mutable_job()->mutable_consistency()->mutable_sync();
  for (uint32_t n = 0; n < nodes; ++n) {
    record.mutable_view()->add_nodes()->set_node(n);
    record.mutable_view()->mutable_nodes(static_cast<int>(n))->set_first_rank(n);
  }
  record.mutable_layout()->set_elements(kChunks * kChunkElements);
  record.mutable_placement()->set_chunk_elements(kChunkElements);
  for (uint32_t s = 0; s < kShards; ++s) {
    record.mutable_placement()->add_shard_endpoints(absl::StrCat("tcp://shard", s));
  }
  for (uint32_t c = 0; c < kChunks; ++c) {
    record.mutable_placement()->add_shard_of_chunk(c % kShards);
  }
  record.mutable_resume()->set_clock(kFirst);
  return record;
}

// Nodes that push (node + 1) * (clock + 1) and would offer weights of -1.
struct ResumeWorld : ExchangeWorld {
  ResumeWorld(uint64_t seed, const proto::JobRecord& record, const transport::SimFaults& faults)
      : ExchangeWorld(
            seed, record, faults,
            [](uint32_t node, uint64_t clock) { return (node + 1) * (clock + 1); }, -1),
        all_nodes(record.view().nodes_size()) {
    for (uint32_t c = 0; c < kChunks; ++c) Resume(c, kFirst);
  }
  // The chunk has this many pushes of each node.
  void Resume(uint32_t chunk, uint64_t clock) {
    std::map<uint32_t, uint64_t> pushed;
    for (uint32_t n = 0; n < all_nodes; ++n) pushed[n] = clock;
    shard(chunk % kShards)
        .Resume(chunk, std::vector<float>(kChunkElements, After(clock)), clock, pushed);
  }
  // A weight after this many clocks.
  float After(uint64_t clocks) const {
    const auto nodes = static_cast<float>(all_nodes);
    float weight = 100;
    for (uint64_t t = 0; t < clocks; ++t)
      weight += nodes * (nodes + 1) / 2 * static_cast<float>(t + 1);
    return weight;
  }

  const uint32_t all_nodes;
};

void ExpectNoFaults(ResumeWorld& world) {
  for (size_t s = 0; s < world.shards(); ++s) {
    EXPECT_TRUE(world.shard(s).faults().empty()) << world.shard(s).faults().front();
  }
}

TEST(ResumeTest, EveryNodeGoesOnWithTheCheckpointsClockAndWeights) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    ResumeWorld world(seed, ResumeRecord(1 + seed % 3),
                      {.drop = 0.2, .duplicate = 0.2, .break_both = 0.02});
    const absl::Status status = world.Run(kClocks);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    for (size_t n = 0; n < world.nodes(); ++n) {
      EXPECT_EQ(world.node(n).first_clock(), kFirst);
      EXPECT_EQ(world.node(n).first_weights()[0], world.After(kFirst));
      EXPECT_EQ(world.node(n).landed(), std::vector<uint64_t>(kChunks, kClocks));
      EXPECT_EQ(world.node(n).counters().pushes, kChunks * (kClocks - kFirst));
      for (float weight : world.node(n).weights()) EXPECT_EQ(weight, world.After(kClocks));
    }
    ExpectNoFaults(world);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(ResumeTest, AJobThatHasMadeAllItsStepsIsGivenItsWeightsAndEnds) {
  ResumeWorld world(1, ResumeRecord(2), {});
  ASSERT_TRUE(world.Run(kFirst).ok());
  EXPECT_EQ(world.node(1).finals(), kChunks);
  EXPECT_EQ(world.node(1).counters().pushes, 0u);
  EXPECT_EQ(world.node(1).weights()[3], world.After(kFirst));
  ExpectNoFaults(world);
}

TEST(ResumeTest, InAClockedJobChunksThatGoOnAtDifferentClocksAreAnErrorThatNamesTwo) {
  ResumeWorld world(1, ResumeRecord(2), {});
  world.Resume(3, kFirst + 1);
  const absl::Status status = world.Run(kClocks);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the job goes on from a checkpoint at clock 6 with chunk 0 (server "
                        "tcp://shard0), but at clock 7 with chunk 3 (server tcp://shard1)"));
}

// A repeated push of the chunk that is ahead is answered, and counts once.
TEST(ResumeTest, WherePushesAreAppliedAsTheyComeANodeBeginsWithTheLeastClock) {
  proto::JobRecord record = ResumeRecord(1);
  record.mutable_job()->mutable_consistency()->mutable_async();
  ResumeWorld world(1, record, {});
  world.Resume(3, kFirst + 1);
  const absl::Status status = world.Run(kClocks);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(world.node(0).first_clock(), kFirst);
  EXPECT_EQ(world.node(0).counters().pushes, kChunks * (kClocks - kFirst));
  for (float weight : world.node(0).weights()) EXPECT_EQ(weight, world.After(kClocks));
  ExpectNoFaults(world);
}

TEST(ResumeTest, ANodeThatKeepsStateIsGivenItsPartOfTheCheckpoint) {
  for (void (*change)(proto::Job*) : std::vector<void (*)(proto::Job*)>{
           [](proto::Job* job) { job->mutable_push()->set_codec(proto::Encoding::INT8); },
           [](proto::Job* job) {
             job->mutable_consistency()->mutable_lazy()->set_double_buffering(true);
           },
           [](proto::Job* job) { job->mutable_consistency()->mutable_lazy()->set_local_steps(4); },
           [](proto::Job* job) { job->mutable_optimizer()->mutable_lars(); }}) {
    CoreOptions options;
    options.record = ResumeRecord(1);
    proto::Segment* segment = options.record.mutable_layout()->add_segments();
    segment->set_name("w");
    segment->add_shape(options.record.layout().elements());
    change(options.record.mutable_job());
    const absl::Status without = CreateExchangeCore(options).status();
    EXPECT_EQ(without.code(), absl::StatusCode::kInvalidArgument) << without;
    EXPECT_THAT(std::string(without.message()), HasSubstr("was given no part"));
    options.resume = std::make_shared<NodeResume>();
    EXPECT_EQ(
        CreateExchangeCore(options).status(),
        absl::InvalidArgumentError("the node's part of the checkpoint has 0 chunks, the job 5"));
  }
}

// A process that replaces one that died, frame by frame. With real shards:
// tests/exchange/replaced_nodes_test.cc.

using transport::ConnectionId;
using wire::Frame;
using wire::Op;

constexpr uint64_t kNone = UINT64_MAX;
constexpr uint32_t kElements = kWorldChunkElements;

// A job of two chunks on one shard, which the test simulates.
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
    ASSERT_TRUE(core_->OnLinkEvent(LinkEvent::Start(), now_, &actions_).ok());
    EXPECT_EQ(core_->OnLinkEvent(LinkEvent::Connected(LinkId(0), ConnectionId(1)), now_, &actions_),
              absl::OkStatus());
    Frame hello;
    hello.header.op = Op::kHelloOk;
    ASSERT_TRUE(core_->OnLinkEvent(LinkEvent::Frame(ConnectionId(1), hello), now_, &actions_).ok());
  }
  // Returns the frames that the core has sent since the last call, by chunk.
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
    return core_->OnLinkEvent(LinkEvent::Frame(ConnectionId(1), frame), now_, &actions_);
  }
  absl::Status Count(uint32_t chunk, uint64_t received) {
    return Answer(chunk, kNone, received, false);
  }

  const absl::Time now_ = absl::UnixEpoch();
  const std::vector<float> weights_ = std::vector<float>(kElements, 5.0f);
  proto::Encoding::Codec pull_ = proto::Encoding::FP32;
  uint64_t answers_ = 0;  // in the weights
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
  EXPECT_EQ(core_->phase(), ExchangeCore::Phase::kSeeding);
  EXPECT_TRUE(Answer(1, 6, 6, true).ok());
  EXPECT_EQ(core_->phase(), ExchangeCore::Phase::kTraining);
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

// An answer that adds to other weights is dropped; one to these is read, and this one is invalid.
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
  EXPECT_EQ(core_->OnLinkEvent(LinkEvent::Frame(ConnectionId(1), answer), now_, &actions_),
            absl::OkStatus());
  answer.header.base_version = 4;
  EXPECT_EQ(core_->OnLinkEvent(LinkEvent::Frame(ConnectionId(1), answer), now_, &actions_).code(),
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
  EXPECT_EQ(core_->phase(), ExchangeCore::Phase::kTraining);
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
    EXPECT_TRUE(
        core_->OnLinkEvent(LinkEvent::Frame(ConnectionId(1), answer), now_, &actions_).ok());
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

// No checkpoint usable by the new process has the residual of a lossy codec.
TEST_F(RejoinTest, GoesOnFromNoPartOfACheckpoint) {
  options_.record = WorldRecord(1, 2, 1, 4);
  options_.record.mutable_resume()->set_clock(6);
  options_.record.mutable_job()->mutable_push()->set_codec(proto::Encoding::INT8);
  options_.incarnation = 2;
  EXPECT_FALSE(CreateExchangeCore(options_).ok());
  options_.record.mutable_job()->mutable_replace()->set_per_hour(1);
  EXPECT_EQ(CreateExchangeCore(options_).status(), absl::OkStatus());
}

// An incarnation of a job that replaces no nodes begins like the first one.
TEST_F(RejoinTest, OnlyInJobsThatReplaceNodes) {
  options_.record = WorldRecord(1, 2, 1, 4);
  options_.incarnation = 2;
  core_ = *CreateExchangeCore(options_);
  ASSERT_TRUE(core_->OnLinkEvent(LinkEvent::Start(), now_, &actions_).ok());
  ASSERT_EQ(actions_.node.size(), 2u);
  EXPECT_EQ(actions_.node[0].kind, NodeAction::Kind::kFirstWeights);
}

}  // namespace
}  // namespace strata::worker
