#include "server/shard/chunk/chunk_state.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {
namespace {

constexpr uint32_t kElements = 4;

ChunkRules Rules(size_t nodes, uint32_t staleness) {
  proto::Job job;
  job.mutable_consistency()->mutable_lazy()->set_staleness(staleness);
  ChunkRules rules;
  rules.nodes = nodes;
  rules.mode = *CreateConsistencyMode(
      job, {.of_node = std::vector<uint32_t>(nodes, 1), .total = static_cast<uint32_t>(nodes)});
  rules.update.optimizer.kind = OptimizerKind::kSgd;
  rules.update.schedule.set_base_lr(1.0f);
  return rules;
}

const std::vector<float> kOnes(kElements, 1.0f);

Bytes Ones() {
  return Bytes(nullptr, reinterpret_cast<const std::byte*>(kOnes.data()),
               kOnes.size() * sizeof(float));
}

// In sync at most half of the nodes' sums are held, whatever the order; in lazy, as much per clock
// that may be incomplete.
TEST(ChunkState, HeldGradientsAreBoundedByNodesAndStaleness) {
  for (size_t nodes : {2, 3, 8, 13}) {
    for (uint32_t staleness : {0, 1, 4}) {
      BufferPool pool;
      kernels::EncoderScratch scratch;
      const ChunkRules rules = Rules(nodes, staleness);
      ChunkState chunk(kernels::Cpu(), pool, &scratch, rules, kElements,
                       {{0, kElements, 1.0f, 1.0f}});
      chunk.Seed(Ones(), 1);
      std::mt19937 random(nodes);
      std::vector<uint64_t> pushed(nodes);
      std::vector<bool> waiting(nodes);
      size_t most = 0;
      for (int step = 0; step < 3000; ++step) {
        const size_t node = random() % nodes;
        if (waiting[node]) continue;
        std::vector<DueAnswer> due;
        waiting[node] = true;
        const PushResult result = chunk.OnPush(
            {.node = node, .clock = pushed[node]++, .samples = 1, .sum = Ones()}, &due);
        ASSERT_EQ(result.error, wire::ErrorCode::kNone) << result.reason;
        for (const DueAnswer& answer : due) waiting[answer.node] = false;
        most = std::max(most, chunk.held());
        ASSERT_LE(chunk.held(), (staleness + 1) * ((nodes + 1) / 2));
      }
      EXPECT_GT(most, 0u);
      EXPECT_GT(chunk.weights().version(), 50u);
    }
  }
}

TEST(ChunkState, OlderDuplicatesStaySilentAndTheLastOneIsAnsweredWhenDue) {
  BufferPool pool;
  kernels::EncoderScratch scratch;
  const ChunkRules rules = Rules(2, 0);
  ChunkState chunk(kernels::Cpu(), pool, &scratch, rules, kElements, {{0, kElements, 1.0f, 1.0f}});
  chunk.Seed(Ones(), 1);
  std::vector<DueAnswer> due;
  const auto push = [&](size_t node, uint64_t clock) {
    due.clear();
    return chunk.OnPush({.node = node, .clock = clock, .samples = 1, .sum = Ones()}, &due);
  };
  push(0, 0);
  EXPECT_TRUE(push(0, 0).duplicate);
  EXPECT_TRUE(due.empty()) << "not due yet";
  EXPECT_FALSE(push(1, 0).duplicate);
  EXPECT_EQ(due.size(), 2u);
  EXPECT_TRUE(push(0, 0).duplicate);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].clock, 0u);
  push(0, 1);
  EXPECT_TRUE(push(0, 0).duplicate);
  EXPECT_TRUE(due.empty()) << "its sender has the answer, or it would not have pushed again";
  EXPECT_EQ(chunk.Received(0), 2u);
  EXPECT_EQ(chunk.MinClock(), 1u);
}

// A repetition may take another way than what it repeats.
TEST(ChunkState, ADuplicateIsAConflictOnlyIfBothChecksumsAreKnownAndDiffer) {
  BufferPool pool;
  kernels::EncoderScratch scratch;
  const ChunkRules rules = Rules(2, 0);
  ChunkState chunk(kernels::Cpu(), pool, &scratch, rules, kElements, {{0, kElements, 1.0f, 1.0f}});
  chunk.Seed(Ones(), 1);
  const auto push = [&](size_t node, uint64_t clock, uint64_t checksum) {
    std::vector<DueAnswer> due;
    return chunk
        .OnPush({.node = node, .clock = clock, .samples = 1, .checksum = checksum, .sum = Ones()},
                &due)
        .error;
  };
  EXPECT_EQ(push(0, 0, 0), wire::ErrorCode::kNone);
  EXPECT_EQ(push(0, 0, 5), wire::ErrorCode::kNone);
  EXPECT_EQ(push(1, 0, 5), wire::ErrorCode::kNone);
  EXPECT_EQ(push(1, 0, 0), wire::ErrorCode::kNone);
  EXPECT_EQ(push(1, 0, 6), wire::ErrorCode::kConflict);
}

}  // namespace
}  // namespace strata::server
