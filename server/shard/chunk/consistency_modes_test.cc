#include "server/shard/chunk/consistency_modes.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/shard/chunk/accumulator_leaves.h"
#include "server/shard/chunk/quorum_clock.h"

namespace strata::server {
namespace {

std::unique_ptr<ConsistencyMode> Mode(const std::string& consistency, size_t nodes) {
  proto::Job job;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(consistency, job.mutable_consistency()));
  auto mode = CreateConsistencyMode(
      job, {.of_node = std::vector<uint32_t>(nodes, 1), .total = static_cast<uint32_t>(nodes)});
  EXPECT_TRUE(mode.ok()) << mode.status();
  return mode.ok() ? *std::move(mode) : nullptr;
}

Bytes ToBytes(const float& value) {
  return Bytes(nullptr, reinterpret_cast<const std::byte*>(&value), sizeof(float));
}

// A mode with a chunk of one weight, SGD with rate 1; the weight starts at 0.
struct OneWeight {
  numerics::UpdateRule update;
  BufferPool pool;
  numerics::WeightState weights;
  ChunkNodes nodes;
  ChunkCuts cuts;
  ClockSums sums;
  std::unique_ptr<ConsistencyMode> mode;
  std::unique_ptr<ChunkMode> chunk;

  OneWeight(const std::string& consistency, size_t count)
      : weights(kernels::Cpu(), pool, update, 1, {{0, 1, 1.0f, 1.0f}}),
        nodes(count),
        cuts(0, weights),
        mode(Mode(consistency, count)),
        chunk(mode->CreateForChunk({kernels::Cpu(), pool, weights, nodes, cuts, sums})) {
    update.optimizer.kind = OptimizerKind::kSgd;
    update.schedule.set_base_lr(1.0f);
    weights.Seed(ToBytes(0.0f), 1);
    chunk->OnSeed();
  }

  // The node's next push, of a gradient of one sample that was computed with `base_version`.
  void Push(size_t node, const float& gradient, uint64_t base_version = 0,
            absl::Time now = absl::UnixEpoch()) {
    nodes[node].versions_behind = static_cast<uint32_t>(weights.version() - base_version);
    std::vector<DueAnswer> due;
    const PushResult result = chunk->Take({.node = node,
                                           .clock = nodes[node].received++,
                                           .base_version = base_version,
                                           .samples = 1,
                                           .sum = ToBytes(gradient),
                                           .came_at = now},
                                          Addend(ToBytes(gradient)), &due);
    EXPECT_EQ(result.error, wire::ErrorCode::kNone) << result.reason;
  }

  // Returns whether push `clock` of the first node may be answered.
  bool MayAnswer(uint64_t clock, uint64_t gate) {
    nodes[0].received = clock + 1;
    return chunk->MayAnswer(0, gate);
  }
  uint32_t Staleness(uint64_t clock, uint64_t gate, uint32_t versions_behind) {
    nodes[0].received = clock + 1;
    nodes[0].versions_behind = versions_behind;
    return chunk->StalenessOf(0, gate);
  }
  float weight() const { return weights.weights().floats()[0]; }
};

TEST(ConsistencyModes, SyncAnswersOnceEveryNodeHasPushedTheClock) {
  OneWeight sync("sync {}", 2);
  EXPECT_TRUE(sync.mode->answers_alike());
  EXPECT_FALSE(sync.MayAnswer(4, 4));
  EXPECT_TRUE(sync.MayAnswer(4, 5));
  EXPECT_EQ(sync.Staleness(4, 5, 3), 0u);
}

TEST(ConsistencyModes, SyncAppliesTheMeanOnceEveryNodeHasPushed) {
  OneWeight sync("", 2);
  const float first = -2.0f, second = -4.0f;
  sync.Push(0, first);
  EXPECT_EQ(sync.weights.version(), 0u);
  EXPECT_EQ(sync.chunk->held(), 1u);
  sync.Push(1, second);
  EXPECT_EQ(sync.weights.version(), 1u);
  EXPECT_EQ(sync.chunk->held(), 0u);
  EXPECT_EQ(sync.weight(), 3.0f);
}

TEST(ConsistencyModes, LazyAnswersUpToItsBoundAheadOfTheSlowest) {
  OneWeight lazy("lazy { staleness: 3 }", 2);
  EXPECT_FALSE(lazy.mode->answers_alike());
  EXPECT_TRUE(Mode("lazy { staleness: 0 }", 2)->answers_alike());
  EXPECT_TRUE(lazy.MayAnswer(2, 0));
  EXPECT_FALSE(lazy.MayAnswer(3, 0));
  EXPECT_TRUE(lazy.MayAnswer(3, 1));
  EXPECT_TRUE(lazy.MayAnswer(3, kClockInfinity));
  EXPECT_EQ(lazy.Staleness(3, 1, 99), 3u);
  EXPECT_EQ(lazy.Staleness(3, 7, 99), 0u);
}

// Each has a clock of its own, so that nothing is summed.
TEST(ConsistencyModes, LazyHoldsOneMoreOpenClockThanItsBound) {
  OneWeight lazy("lazy { staleness: 3 }", 2);
  const float gradient = 1.0f;
  for (int clock = 0; clock < 4; ++clock) lazy.Push(0, gradient);
  EXPECT_EQ(lazy.chunk->held(), 4u);
  EXPECT_EQ(lazy.chunk->bytes(), 4 * sizeof(float));
  EXPECT_EQ(lazy.weights.version(), 0u);
  EXPECT_FALSE(lazy.MayAnswer(3, lazy.nodes[1].received)) << "it may not push a fifth";
}

TEST(ConsistencyModes, LazyOnArrivalKeepsTheGateAndScalesToTheClock) {
  OneWeight lazy("lazy { staleness: 1 apply: ON_ARRIVAL }", 2);
  EXPECT_FALSE(lazy.mode->answers_alike());
  const float gradient = -4.0f;
  lazy.Push(0, gradient);
  EXPECT_EQ(lazy.weights.version(), 1u);
  EXPECT_EQ(lazy.weight(), 2.0f) << "one of the clock's two samples";
  EXPECT_FALSE(lazy.MayAnswer(1, 0));
  EXPECT_TRUE(lazy.MayAnswer(1, 1));
  EXPECT_EQ(lazy.Staleness(1, 1, 99), 1u);
}

TEST(ConsistencyModes, AQuorumHasOneOpenClockAndVersionsThatDifferByNode) {
  OneWeight quorum("lazy { quorum { nodes: 3 grace_ms: 20 } }", 4);
  EXPECT_FALSE(quorum.mode->answers_alike());
  const float gradient = -3.0f;
  const absl::Time now = absl::FromUnixSeconds(1);
  quorum.Push(0, gradient, 0, now);
  quorum.Push(1, gradient, 0, now);
  EXPECT_EQ(quorum.chunk->deadline(), absl::InfiniteFuture());
  EXPECT_FALSE(quorum.MayAnswer(0, kClockInfinity)) << "it waits in the open clock";
  quorum.Push(2, gradient, 0, now);
  EXPECT_EQ(quorum.chunk->deadline(), now + absl::Milliseconds(20));
  EXPECT_EQ(quorum.weights.version(), 0u);
  quorum.chunk->OnTime(now + absl::Milliseconds(20));
  EXPECT_EQ(quorum.weights.version(), 1u);
  EXPECT_EQ(quorum.weight(), 3.0f);
  EXPECT_TRUE(quorum.MayAnswer(7, 2)) << "whoever is in no open clock";
  EXPECT_EQ(quorum.Staleness(7, 2, 4), 4u);
}

TEST(ConsistencyModes, AQuorumOfMoreNodesThanTheJobHasIsRefused) {
  proto::Job job;
  job.mutable_consistency()->mutable_lazy()->mutable_quorum()->set_nodes(3);
  EXPECT_EQ(CreateConsistencyMode(job, {.of_node = {1, 1}, .total = 2}).status().message(),
            "consistency.lazy.quorum.nodes: 3, but the job has 2 nodes");
}

TEST(ConsistencyModes, AsyncAnswersAtOnceAndDampsByStaleness) {
  OneWeight full("async {}", 2), damped("async { damping: INVERSE_STALENESS }", 2);
  EXPECT_FALSE(full.mode->answers_alike());
  EXPECT_TRUE(full.MayAnswer(1000, 0));
  EXPECT_EQ(full.Staleness(1000, 0, 6), 6u);
  const float gradient = -1.0f;
  std::vector<float> full_steps, damped_steps;
  for (uint64_t base_version : {0, 0, 0, 0, 0}) {  // 0 to 4 versions behind
    const float full_before = full.weight(), damped_before = damped.weight();
    full.Push(0, gradient, base_version);
    damped.Push(0, gradient, base_version);
    full_steps.push_back(full.weight() - full_before);
    damped_steps.push_back(damped.weight() - damped_before);
  }
  EXPECT_EQ(full_steps, std::vector<float>(5, 1.0f));
  EXPECT_EQ(damped_steps[0], 1.0f);
  EXPECT_EQ(damped_steps[1], 1.0f);
  EXPECT_EQ(damped_steps[2], 0.5f);
  EXPECT_EQ(damped_steps[4], 0.25f);
}

TEST(ConsistencyModes, OnlyModesThatGoOnFromWhatTheyGaveKeepIt) {
  for (const char* mode : {"sync {}", "lazy { apply: ON_ARRIVAL }", "async {}"}) {
    EXPECT_EQ(OneWeight(mode, 2).chunk->GivenTo(0), nullptr) << mode;
  }
  for (const char* mode :
       {"async { elastic { moving_rate: 0.5 } }", "async { delay_compensation { lambda: 1 } }"}) {
    OneWeight keeps(mode, 2);
    const float push = -1.0f;
    keeps.Push(0, push);
    keeps.chunk->OnAnswered(0);
    ASSERT_NE(keeps.chunk->GivenTo(0), nullptr) << mode;
    EXPECT_EQ(keeps.chunk->GivenTo(0)->version, 1u) << mode;
    EXPECT_EQ(keeps.chunk->GivenTo(1)->version, 0u) << mode;
    EXPECT_EQ(keeps.chunk->bytes(), sizeof(float)) << "the one of two that is not the newest";
  }
}

constexpr size_t kQuorumClockElements = 3;

std::vector<float> ToFloats(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

TEST(QuorumClock, HoldsWhoWaitsAndWhoWasLateUntilItCloses) {
  BufferPool pool;
  QuorumClock clock(kernels::Cpu(), pool, 4, kQuorumClockElements);
  EXPECT_TRUE(clock.empty());
  const std::vector<float> ones(kQuorumClockElements, 1.0f), twos(kQuorumClockElements, 2.0f);
  clock.Join(2, Addend(View(ones)), {3});
  clock.JoinLate(0, Addend(View(twos)), {4});
  EXPECT_TRUE(clock.Waits(2));
  EXPECT_TRUE(clock.Holds(2));
  EXPECT_FALSE(clock.Waits(0));
  EXPECT_TRUE(clock.Holds(0));
  EXPECT_FALSE(clock.Holds(1));
  EXPECT_EQ(clock.waiting(), 1u);
  EXPECT_EQ(clock.samples(), 7u);
  EXPECT_EQ(clock.held(), 2u);
  EXPECT_EQ(clock.held_bytes(), 2 * kQuorumClockElements * sizeof(float));
  EXPECT_EQ(ToFloats(clock.Close()), std::vector<float>(kQuorumClockElements, 3.0f));
  EXPECT_TRUE(clock.empty());
  EXPECT_FALSE(clock.Holds(2));
  EXPECT_EQ(clock.samples(), 0u);
  EXPECT_EQ(clock.held_bytes(), 0u);
}

TEST(QuorumClock, ANodeMayBeLateTwiceAndThenInTime) {
  BufferPool pool;
  QuorumClock clock(kernels::Cpu(), pool, 2, kQuorumClockElements);
  const std::vector<float> ones(kQuorumClockElements, 1.0f), twos(kQuorumClockElements, 2.0f);
  clock.JoinLate(1, Addend(View(ones)), {1});
  clock.JoinLate(1, Addend(View(twos)), {1});
  EXPECT_EQ(clock.held(), 1u);
  clock.Join(1, Addend(View(twos)), {1});
  EXPECT_EQ(clock.samples(), 3u);
  EXPECT_EQ(ToFloats(clock.Close()), std::vector<float>(kQuorumClockElements, 5.0f));
}

TEST(QuorumClock, EmptyPushesCountAndAddNothing) {
  BufferPool pool;
  QuorumClock clock(kernels::Cpu(), pool, 2, kQuorumClockElements);
  clock.JoinLate(0, Addend(), {0});
  clock.JoinLate(0, Addend(), {0});
  clock.Join(1, Addend(), {2});
  EXPECT_FALSE(clock.empty());
  EXPECT_EQ(clock.held(), 0u);
  EXPECT_EQ(clock.samples(), 2u);
  EXPECT_TRUE(clock.Close().empty());
}

// With all nodes in time the sum has sync's bits; with some, it does not depend on the order of
// arrival.
TEST(QuorumClock, TheSumDoesNotDependOnTheOrderOfArrival) {
  constexpr size_t kNodes = 7, kMany = 65;
  const std::vector<std::vector<float>> leaves = MakeLeaves(2 * kNodes, kMany);
  BufferPool pool;
  const auto tree = CreateAccumulator(proto::Addition::TREE, kernels::Cpu(), pool, kNodes, kMany);
  for (size_t i = 0; i < kNodes; ++i) tree->Add(i, Addend(View(leaves[i])));
  const std::vector<float> of_all = ToFloats(tree->Finish());
  std::vector<float> of_some;
  std::mt19937 random(1);
  std::vector<size_t> order(kNodes);
  for (size_t i = 0; i < kNodes; ++i) order[i] = i;
  for (int round = 0; round < 50; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    QuorumClock clock(kernels::Cpu(), pool, kNodes, kMany);
    for (const size_t i : order) clock.Join(i, Addend(View(leaves[i])), {1});
    EXPECT_EQ(ToFloats(clock.Close()), of_all);
    for (const size_t i : order) {
      if (i % 3 == 0) clock.Join(i, Addend(View(leaves[i])), {1});
      if (i % 2 == 0) clock.JoinLate(i, Addend(View(leaves[kNodes + i])), {1});
    }
    const std::vector<float> sum = ToFloats(clock.Close());
    if (round == 0) of_some = sum;
    EXPECT_EQ(sum, of_some);
  }
}

}  // namespace
}  // namespace strata::server
