#include "worker/aggregator/core/node_arenas.h"

#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"

namespace strata::worker {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint32_t kChunkElements = 200000;
constexpr uint64_t kElements = 2500007;  // 13 chunks, and larger than caches

// The arenas of a node whose ranks have published gradients of `clock` 0 and sleep for weights.
class NodeArenasTest : public testing::Test {
 protected:
  NodeArenasTest() {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> values(-1e3f, 1e3f);
    std::vector<const float*> gradients;
    for (uint32_t r = 0; r < kRanks; ++r) {
      float* gradient = memory_->gradients(r);
      for (uint64_t i = 0; i < kElements; ++i) gradient[i] = values(random);
      gradients.push_back(gradient);
      memory_->rank(r).samples[0] = r + 1;
      memory_->rank(r).waits_for = map_.chunks();
    }
    sum_.resize(kElements);
    kernels::Cpu().sum(gradients, sum_.data(), kElements);
    const std::vector<uint64_t> ready(kRanks, 1);
    for (uint32_t c = 0; c < map_.chunks(); ++c) EXPECT_TRUE(*core_.OnReady(ChunkId(c), ready));
  }

  NodeArenas Arenas(ForkJoin* helpers, uint32_t cores) {
    return NodeArenas(memory_.get(), &core_, map_, kernels::Cpu(),
                      {.helpers = helpers, .cores = cores});
  }
  bool IsSum(const void* values, ChunkId chunk) const {
    return std::memcmp(values, sum_.data() + map_.OffsetOf(chunk),
                       map_.ElementsOf(chunk) * sizeof(float)) == 0;
  }

  const std::unique_ptr<NodeMemory> memory_ = *NodeMemory::Create(kElements, kRanks);
  const ChunkMap map_{kElements, kChunkElements};
  AggregatorCore core_{RankId(0), kRanks, map_.chunks()};
  std::vector<float> sum_;
};

TEST_F(NodeArenasTest, HelpersAddToTheSameBits) {
  ForkJoin helpers(2);
  NodeArenas arenas = Arenas(&helpers, 4);
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const ExchangeNode::Sum sum = arenas.TakeSum(ChunkId(c), 0);
    EXPECT_TRUE(IsSum(sum.bytes.data(), ChunkId(c))) << c;
    EXPECT_EQ(sum.step.samples, 1 + 2 + 3);
    EXPECT_EQ(memory_->consumed(c).load(), 1);
  }
}

TEST_F(NodeArenasTest, SumsThatAreTheNextWeightsAreShownToTheRanks) {
  ForkJoin helpers(1);
  NodeArenas arenas = Arenas(&helpers, 2);
  arenas.SumIntoWeights(ChunkId(4), 9, 0);  // including the short one at the end
  arenas.SumIntoWeights(ChunkId(0), 4, 0);
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    EXPECT_TRUE(IsSum(memory_->weights() + map_.OffsetOf(ChunkId(c)), ChunkId(c))) << c;
    EXPECT_EQ(memory_->consumed(c).load(), 1);
    EXPECT_EQ(memory_->landed(c).load(), 2);
  }
  EXPECT_EQ(core_.under_way(), 0);
  EXPECT_GT(memory_->rank(0).bell.load(), 0);  // the rank that slept for the last chunk was woken
}

TEST_F(NodeArenasTest, MeansThatAreTheNextWeightsHaveTheBitsOfTheOptimizersMean) {
  ForkJoin helpers(1);
  NodeArenas arenas = Arenas(&helpers, 2);
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    ASSERT_EQ(arenas.MeanIntoWeights(ChunkId(c), 0), absl::OkStatus());
    EXPECT_EQ(memory_->consumed(c).load(), 1);
    EXPECT_EQ(memory_->landed(c).load(), 2);
  }
  const auto scale = static_cast<float>(1.0 / (1 + 2 + 3));
  for (uint64_t i = 0; i < kElements; ++i) {
    ASSERT_EQ(memory_->weights()[i], sum_[i] * scale) << i;
  }
}

TEST_F(NodeArenasTest, AMeanThatIsNotFiniteIsAnErrorThatNamesItsChunk) {
  NodeArenas arenas = Arenas(nullptr, 1);
  memory_->gradients(1)[map_.OffsetOf(ChunkId(2)) + 5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(arenas.MeanIntoWeights(ChunkId(1), 0), absl::OkStatus());
  const absl::Status status = arenas.MeanIntoWeights(ChunkId(2), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("chunk 2 of step 0"));
  EXPECT_EQ(memory_->landed(2).load(), 0);
}

TEST(HelpersForTest, AreThereWhereSumsAndCoresAre) {
  EXPECT_EQ(HelpersFor(1, 8), 0);  // one rank's gradients need no sum
  EXPECT_EQ(HelpersFor(4, 1), 0);
  EXPECT_EQ(HelpersFor(2, 2), 1);
  EXPECT_EQ(HelpersFor(8, 64), 3);
}

}  // namespace
}  // namespace strata::worker
