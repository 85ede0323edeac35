#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/diverged.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "worker/aggregator/core/node_arenas.h"
#include "worker/aggregator/core/rank_watch.h"
#include "worker/aggregator/core/view_gate.h"

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
  EXPECT_TRUE(HasDiverged(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("chunk 2 of step 0"));
  EXPECT_EQ(memory_->landed(2).load(), 0);
}

TEST(HelpersForTest, AreThereWhereSumsAndCoresAre) {
  EXPECT_EQ(HelpersFor(1, 8), 0);  // one rank's gradients need no sum
  EXPECT_EQ(HelpersFor(4, 1), 0);
  EXPECT_EQ(HelpersFor(2, 2), 1);
  EXPECT_EQ(HelpersFor(8, 64), 3);
}

proto::ViewChange Change(uint32_t number, uint64_t at, const std::vector<uint32_t>& joined) {
  proto::ViewChange change;
  change.set_number(number);
  change.set_at_clock(at);
  for (const uint32_t node : joined) change.add_joined(node);
  return change;
}

// A job of view 1, whose nodes 1 and 2 are absent.
class Gate : public testing::Test {
 protected:
  static Views Begin() {
    proto::JobRecord record;
    record.mutable_view()->set_number(1);
    for (uint32_t node = 0; node < 3; ++node) {
      proto::LogicalNode* const logical = record.mutable_view()->add_nodes();
      logical->set_node(node);
      logical->set_first_rank(node);
      logical->set_ranks(1);
      logical->set_absent(node > 0);
    }
    return *Views::Of(record);
  }
  std::optional<uint64_t> Promise(uint32_t number) {
    return gate_.Promise(number, [this](uint64_t until) {
      until_ = until;
      return told_;
    });
  }

  ViewGate gate_{Begin()};
  uint64_t told_ = 7;
  uint64_t until_ = 0;
};

TEST_F(Gate, IsOpenUntilAChangeIsProposed) {
  EXPECT_EQ(gate_.open_until(), ViewGate::kOpen);
  EXPECT_EQ(Promise(2), 7 + ViewGate::kMargin);
  EXPECT_EQ(gate_.open_until(), 7 + ViewGate::kMargin);
  EXPECT_EQ(until_, gate_.open_until());
}

TEST_F(Gate, PromisesTheSameClockHoweverOftenItIsAsked) {
  EXPECT_EQ(Promise(2), 11u);
  told_ = 10;
  EXPECT_EQ(Promise(2), 11u);
  EXPECT_EQ(Promise(3), 14u) << "of another change";
  EXPECT_EQ(Promise(2), std::nullopt) << "which is old news then";
  EXPECT_EQ(gate_.open_until(), 14u);
}

TEST_F(Gate, OpensOnceTheOutcomeIsKnown) {
  Promise(2);
  ASSERT_TRUE(gate_.Take(Change(2, 13, {1}), told_).ok());
  EXPECT_EQ(gate_.open_until(), ViewGate::kOpen);
  EXPECT_TRUE(gate_.views().Has(NodeId(1), 13));
  Promise(3);
  ASSERT_TRUE(gate_.Take(Change(3, 0, {}), told_).ok()) << "it is given up";
  EXPECT_EQ(gate_.open_until(), ViewGate::kOpen);
  EXPECT_EQ(Promise(3), std::nullopt) << "and comes again with another number only";
  EXPECT_EQ(Promise(2), std::nullopt);
}

TEST_F(Gate, OldNewsOpensNothing) {
  Promise(2);
  const proto::ViewChange first = Change(2, 13, {1});
  ASSERT_TRUE(gate_.Take(first, told_).ok());
  Promise(3);
  ASSERT_TRUE(gate_.Take(first, told_).ok());
  ASSERT_TRUE(gate_.Take(Change(1, 0, {}), told_).ok());
  EXPECT_LT(gate_.open_until(), ViewGate::kOpen);
}

TEST_F(Gate, WhatComesNextLetsWhoHasJoinedMakeAStep) {
  Promise(2);
  ASSERT_TRUE(gate_.Take(Change(2, 100, {1}), told_).ok());
  EXPECT_EQ(Promise(3), 100 + ViewGate::kMargin);
}

TEST_F(Gate, ARankThatGoesOnMeanwhileIsNotHeldBack) {
  int calls = 0;
  const std::optional<uint64_t> from = gate_.Promise(
      2, [&](uint64_t) { return ++calls == 2 ? uint64_t{20} : told_ + (calls > 2 ? 13 : 0); });
  EXPECT_EQ(from, 20 + ViewGate::kMargin);
}

TEST_F(Gate, WithoutAMarginRanksGoNoFurtherThanTheyHaveBeenTold) {
  const auto promise = [this](uint32_t number) {
    return gate_.Promise(
        number, [this](uint64_t) { return told_; }, ViewGate::kNoMargin);
  };
  EXPECT_EQ(promise(2), 7u);
  EXPECT_EQ(gate_.open_until(), 7u);
  told_ = 8;  // of another number
  EXPECT_EQ(promise(3), 8u);
  ASSERT_TRUE(gate_.Take(Change(3, 20, {1}), told_).ok());
  EXPECT_EQ(promise(4), 20u) << "who makes a step is known until there";
  int calls = 0;
  EXPECT_EQ(
      gate_.Promise(
          5, [&](uint64_t) { return uint64_t{++calls < 2 ? 20u : 23u}; }, ViewGate::kNoMargin),
      23u)
      << "a rank has gone on meanwhile";
}

TEST_F(Gate, ClosesAlsoBeforeAnyStepIsBegun) {
  ViewGate gate(Begin());
  EXPECT_EQ(gate.Promise(
                2, [](uint64_t) { return uint64_t{0}; }, ViewGate::kNoMargin),
            1u);
}

TEST_F(Gate, AChangeThatComesTooEarlyIsRefused) {
  Promise(2);
  EXPECT_EQ(gate_.Take(Change(2, 10, {1}), told_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(gate_.open_until(), 11u);
  ViewGate other(Begin());
  EXPECT_EQ(other.Take(Change(2, 6, {1}), told_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(other.Take(Change(2, 7, {1}), told_).ok());
}

const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(RankWatch, CountsFromTheLookThatFoundARankFurther) {
  RankWatch watch(RankId(6), 2, kStart);
  const RankWatch::Progress progress = {.steps = 57, .published = 12};
  proto::RankActivity seen = watch.Look(1, progress, 61, kStart + absl::Seconds(2));
  EXPECT_EQ(seen.rank(), 7u);
  EXPECT_EQ(seen.clock(), 57u);
  EXPECT_EQ(seen.published(), 12u);
  EXPECT_EQ(seen.chunks(), 61u);
  EXPECT_FALSE(seen.waiting());
  EXPECT_EQ(seen.idle_ms(), 0);
  seen = watch.Look(1, progress, 61, kStart + absl::Seconds(5));
  EXPECT_EQ(seen.idle_ms(), 3000);
  seen = watch.Look(1, {.steps = 57, .published = 13}, 61, kStart + absl::Seconds(6));
  EXPECT_EQ(seen.idle_ms(), 0);
  // The other rank has made no progress at all.
  EXPECT_EQ(watch.Look(0, {}, 61, kStart + absl::Seconds(6)).idle_ms(), 6000);
}

TEST(RankWatch, CountsAnewOnceARankNoLongerWaits) {
  RankWatch watch(RankId(0), 1, kStart);
  watch.Look(0, {.steps = 3, .waiting = true}, 4, kStart + absl::Seconds(1));
  EXPECT_EQ(watch.Look(0, {.steps = 3, .waiting = true}, 4, kStart + absl::Seconds(9)).idle_ms(),
            8000);
  EXPECT_EQ(watch.Look(0, {.steps = 3}, 4, kStart + absl::Seconds(10)).idle_ms(), 0);
  EXPECT_EQ(watch.Look(0, {.steps = 3}, 4, kStart + absl::Seconds(12)).idle_ms(), 2000);
}

TEST(RankWatch, FindsARanksPlaceInTheNodesMemory) {
  constexpr uint32_t kChunks = 4;
  auto memory = NodeMemory::Create(kChunks * kChunkElementsMin, 2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (uint32_t c = 0; c < kChunks; ++c) (*memory)->landed(c).store(3);
  EXPECT_EQ(LeastLanded(**memory, kChunks), 3u);
  // Rank 0 is in step 2, rank 1 has published all of it.
  (*memory)->rank(0).complete.store(2);
  (*memory)->rank(0).published.store(2 * kChunks + 1);
  (*memory)->rank(1).complete.store(3);
  (*memory)->rank(1).published.store(3 * kChunks);
  EXPECT_EQ(MeasureProgress(**memory, 0, kChunks, 3),
            (RankWatch::Progress{.steps = 2, .published = 1}));
  EXPECT_EQ(MeasureProgress(**memory, 1, kChunks, 3),
            (RankWatch::Progress{.steps = 3, .waiting = true}));
  // The weights of one chunk are late.
  (*memory)->landed(2).store(2);
  EXPECT_EQ(LeastLanded(**memory, kChunks), 2u);
  EXPECT_TRUE(MeasureProgress(**memory, 0, kChunks, 2).waiting);
}

TEST(RankWatch, TakesNonsenseInTheNodesMemoryAsItIs) {
  auto memory = NodeMemory::Create(kChunkElementsMin, 1);
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->rank(0).complete.store(7);
  EXPECT_EQ(MeasureProgress(**memory, 0, 1, 8).published, 0u);
  (*memory)->rank(0).published.store(UINT64_MAX);
  EXPECT_EQ(MeasureProgress(**memory, 0, 1, 8).published, 1u);
}

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(BusyTime, AddsUpWhatLiesBetweenBeginAndEnd) {
  BusyTime busy;
  EXPECT_EQ(busy.Total(At(5)), absl::ZeroDuration());
  busy.Set(true, At(10));
  busy.Set(true, At(11));
  EXPECT_EQ(busy.Total(At(13)), absl::Seconds(3));
  busy.Set(false, At(14));
  busy.Set(false, At(15));
  EXPECT_EQ(busy.Total(At(20)), absl::Seconds(4));
  busy.Set(true, At(20));
  EXPECT_EQ(busy.Total(At(21)), absl::Seconds(5));
}

}  // namespace
}  // namespace strata::worker
