// Jobs that go on from a checkpoint, from their nodes' point of view.
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
#include "worker/exchange/testing/exchange_world.h"

namespace strata::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kChunkElements = 4, kChunks = 5, kShards = 2;
constexpr uint64_t kFirst = 6, kClocks = 9;

proto::JobRecord Record(uint32_t nodes) {
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
struct World : ExchangeWorld {
  World(uint64_t seed, const proto::JobRecord& record, const transport::SimFaults& faults)
      : ExchangeWorld(
            seed, record, faults,
            [](uint32_t node, uint64_t clock) { return (node + 1) * (clock + 1); }, -1),
        all_nodes(record.view().nodes_size()) {
    for (uint32_t c = 0; c < kChunks; ++c) Resume(c, kFirst);
  }
  // The chunk has so many pushes of each node.
  void Resume(uint32_t chunk, uint64_t clock) {
    std::map<uint32_t, uint64_t> pushed;
    for (uint32_t n = 0; n < all_nodes; ++n) pushed[n] = clock;
    shard(chunk % kShards)
        .Resume(chunk, std::vector<float>(kChunkElements, After(clock)), clock, pushed);
  }
  // A weight after so many clocks.
  float After(uint64_t clocks) const {
    const auto nodes = static_cast<float>(all_nodes);
    float weight = 100;
    for (uint64_t t = 0; t < clocks; ++t)
      weight += nodes * (nodes + 1) / 2 * static_cast<float>(t + 1);
    return weight;
  }

  const uint32_t all_nodes;
};

void ExpectNoFaults(World& world) {
  for (size_t s = 0; s < world.shards(); ++s) {
    EXPECT_TRUE(world.shard(s).faults().empty()) << world.shard(s).faults().front();
  }
}

TEST(ResumeTest, EveryNodeGoesOnWithTheCheckpointsClockAndWeights) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    World world(seed, Record(1 + seed % 3), {.drop = 0.2, .duplicate = 0.2, .break_both = 0.02});
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
  World world(1, Record(2), {});
  ASSERT_TRUE(world.Run(kFirst).ok());
  EXPECT_EQ(world.node(1).finals(), kChunks);
  EXPECT_EQ(world.node(1).counters().pushes, 0u);
  EXPECT_EQ(world.node(1).weights()[3], world.After(kFirst));
  ExpectNoFaults(world);
}

TEST(ResumeTest, InAClockedJobChunksThatGoOnAtDifferentClocksAreAnErrorThatNamesTwo) {
  World world(1, Record(2), {});
  world.Resume(3, kFirst + 1);
  const absl::Status status = world.Run(kClocks);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the job goes on from a checkpoint at clock 6 with chunk 0 (server "
                        "tcp://shard0), but at clock 7 with chunk 3 (server tcp://shard1)"));
}

// What it pushes again of the chunk that is ahead is answered, and counts once.
TEST(ResumeTest, WherePushesAreAppliedAsTheyComeANodeBeginsWithTheLeastClock) {
  proto::JobRecord record = Record(1);
  record.mutable_job()->mutable_consistency()->mutable_async();
  World world(1, record, {});
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
    options.record = Record(1);
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

}  // namespace
}  // namespace strata::worker
