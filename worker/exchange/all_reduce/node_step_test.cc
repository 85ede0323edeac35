#include "worker/exchange/all_reduce/node_step.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/exchange/all_reduce/first_weights.h"

namespace strata::worker {
namespace {

constexpr ChunkId k0(0), k1(1);

Bytes NodeStepFloats(const std::vector<float>& floats) {
  const auto copy = std::make_shared<std::vector<float>>(floats);
  return Bytes(copy, reinterpret_cast<const std::byte*>(copy->data()),
               copy->size() * sizeof(float));
}

// Two chunks of four elements.
NodeStep Step() { return NodeStep(ChunkMap(8, 4)); }

// All chunks are published, and announced to the ring.
void PublishAll(NodeStep* step) {
  for (const ChunkId chunk : {k0, k1}) {
    step->Publish(chunk);
    EXPECT_EQ(step->NextToAnnounce(), chunk);
  }
}

void MakeStep(NodeStep* step, float mean) {
  EXPECT_FALSE(step->TakeMean(k0, 2, NodeStepFloats({mean + 2, mean + 3}), false));
  EXPECT_FALSE(step->TakeMean(k0, 0, NodeStepFloats({mean, mean + 1}), true));
  EXPECT_TRUE(step->TakeMean(k1, 0, NodeStepFloats({mean, mean, mean, mean}), true));
  step->Make();
}

TEST(NodeStep, IsMadeOnceTheMeansOfAllChunksAreThereAndHandsThemOnAsTheyCame) {
  NodeStep step = Step();
  EXPECT_FALSE(step.TakeMean(k1, 0, NodeStepFloats({1, 2, 3, 4}), true));
  EXPECT_FALSE(step.TakeMean(k0, 2, NodeStepFloats({7, 8}), false));
  EXPECT_EQ(step.clock(), 0u);
  ASSERT_TRUE(step.TakeMean(k0, 0, NodeStepFloats({5, 6}), true));
  const std::vector<NodeAction> means = step.Make();
  EXPECT_EQ(step.clock(), 1u);
  ASSERT_EQ(means.size(), 3u);
  EXPECT_EQ(means[0].chunk, k0);
  EXPECT_EQ(means[0].first_element, 2u);
  EXPECT_EQ(means[0].weights.floats()[1], 8);
  EXPECT_FALSE(means[0].lands);
  EXPECT_TRUE(means[1].lands);
  EXPECT_EQ(means[2].chunk, k1);
  EXPECT_TRUE(means[2].lands);
  for (const NodeAction& mean : means) EXPECT_EQ(mean.clock, 0u);
}

TEST(NodeStep, AsksTheNodeForASumOnceWhateverRingsComeAndKeepsItForTheNext) {
  NodeStep step = Step();
  PublishAll(&step);
  EXPECT_TRUE(step.Want(k0));
  step.Forget();
  EXPECT_FALSE(step.is_wanted(k0));
  EXPECT_EQ(step.NextToAnnounce(), k0);
  EXPECT_FALSE(step.Want(k0)) << "it has been asked";
  EXPECT_EQ(step.sum(k0), nullptr);
  step.Keep(k0, {NodeStepFloats({1, 2, 3, 4}), {.samples = 8}});
  EXPECT_TRUE(step.is_wanted(k0));
  step.Forget();
  EXPECT_EQ(step.NextToAnnounce(), k0);
  EXPECT_FALSE(step.Want(k0));
  ASSERT_NE(step.sum(k0), nullptr);
  EXPECT_EQ(step.sum(k0)->step.samples, 8u);
  EXPECT_EQ(step.NextToAnnounce(), k1);
  EXPECT_TRUE(step.Want(k1));
}

TEST(NodeStep, KeepsNoSumOfAStepThatIsMadeAndTellsTheRingOfNone) {
  NodeStep step = Step();
  PublishAll(&step);
  EXPECT_TRUE(step.Want(k0));
  step.Keep(k0, {NodeStepFloats({1, 2, 3, 4}), {}});
  step.Forget();
  MakeStep(&step, 1);  // with the means that others had
  EXPECT_EQ(step.sum(k0), nullptr);
  EXPECT_EQ(step.NextToAnnounce(), std::nullopt);
  PublishAll(&step);
  EXPECT_TRUE(step.Want(k0)) << "of the next step";
}

TEST(NodeStep, WhatHasComeOfAStepThatIsNotMadeIsForgottenWithTheRing) {
  NodeStep step = Step();
  EXPECT_FALSE(step.TakeMean(k0, 0, NodeStepFloats({1, 1, 1, 1}), true));
  step.Forget();
  EXPECT_FALSE(step.TakeMean(k0, 0, NodeStepFloats({2, 2, 2, 2}), true));
  EXPECT_TRUE(step.TakeMean(k1, 0, NodeStepFloats({3, 3, 3, 3}), true));
  const std::vector<NodeAction> means = step.Make();
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0].weights.floats()[0], 2);
}

TEST(NodeStep, TheLastMeansAreKeptUntilTheFirstOfTheNextStepComes) {
  BufferPool pool;
  NodeStep step = Step();
  EXPECT_FALSE(step.has_last());
  MakeStep(&step, 10);
  for (int times = 0; times < 2; ++times) {
    step.Forget();
    ASSERT_TRUE(step.has_last());
    const Bytes mean = step.LastMean(k0, &pool);
    EXPECT_EQ(std::vector<float>(mean.floats(), mean.floats() + mean.float_count()),
              (std::vector<float>{10, 11, 12, 13}));
  }
  EXPECT_FALSE(step.TakeMean(k1, 0, NodeStepFloats({0, 0}), false));
  EXPECT_FALSE(step.has_last());
}

const ChunkMap kMap(5, 2);  // three chunks, the last of one element

Bytes Weights(float value = 1, size_t count = 2) {
  auto floats = std::make_shared<std::vector<float>>(count, value);
  return Bytes(floats, reinterpret_cast<const std::byte*>(floats->data()), count * sizeof(float));
}

void AddAll(float value, FirstWeights* to) {
  for (uint32_t c = 0; c < 3; ++c) to->Add(ChunkId(c), Weights(value, c < 2 ? 2 : 1));
}

wire::Frame ToFrame(const FirstWeights::Message& message) {
  return {.header = message.header, .payload = message.payload};
}

TEST(FirstWeights, AreSettledOnceAllPeersHaveShownTheSame) {
  FirstWeights own(kMap, 2, false), other(kMap, 1, false);
  AddAll(3, &own);
  AddAll(3, &other);
  ASSERT_EQ(own.Seeds().size(), 1u);
  const wire::Frame seed = ToFrame(other.Seeds()[0]);
  EXPECT_EQ(own.OnSeed(0, "node 1", seed), absl::OkStatus());
  EXPECT_FALSE(own.settled());
  EXPECT_EQ(own.OnSeed(1, "node 2", seed), absl::OkStatus());
  EXPECT_TRUE(own.settled());
  EXPECT_EQ(own.OnSeed(1, "node 2", seed),
            absl::InvalidArgumentError("node 2: SEED of chunks 0 to 2, but chunk 3 of 3 is due"));
}

TEST(FirstWeights, ThatDifferAreRefusedByChunk) {
  FirstWeights own(kMap, 1, false), other(kMap, 1, false);
  AddAll(3, &own);
  AddAll(4, &other);
  EXPECT_EQ(own.OnSeed(0, "node 1", ToFrame(other.Seeds()[0])),
            absl::FailedPreconditionError("node 1 offers other first weights of chunk 0"));
}

TEST(FirstWeights, OfRank0AreTakenOnceAndComparedAfterwards) {
  FirstWeights giver(kMap, 2, true), taker(kMap, 2, true);
  AddAll(3, &giver);
  EXPECT_TRUE(giver.settled());
  for (uint32_t c = 0; c < 3; ++c) {
    const Bytes weights = Weights(3, c < 2 ? 2 : 1);
    const wire::Frame first = ToFrame(giver.First(ChunkId(c), weights));
    EXPECT_FALSE(taker.settled());
    EXPECT_TRUE(*taker.OnFirst("node 0", first));
    taker.Add(ChunkId(c), weights);
    EXPECT_FALSE(*taker.OnFirst("node 2", first));
  }
  EXPECT_TRUE(taker.settled());
  EXPECT_EQ(taker.OnFirst("node 2", ToFrame(giver.First(ChunkId(1), Weights(4)))).status(),
            absl::FailedPreconditionError("node 2 gives other first weights of chunk 1"));
}

TEST(FirstWeights, ThatNobodyWaitsForAreRefused) {
  FirstWeights comparer(kMap, 1, false), taker(kMap, 1, true);
  const wire::Frame first = ToFrame(taker.First(ChunkId(0), Weights()));
  EXPECT_FALSE(comparer.OnFirst("node 1", first).ok());
  for (const auto change : {+[](wire::Header* header) { header->chunk = 3; },
                            +[](wire::Header* header) { header->element_count = 1; },
                            +[](wire::Header* header) { header->codec = wire::Codec::kFloat16; }}) {
    wire::Frame wrong = first;
    change(&wrong.header);
    EXPECT_EQ(taker.OnFirst("node 1", wrong).status().code(), absl::StatusCode::kInvalidArgument);
  }
  AddAll(3, &comparer);
  EXPECT_FALSE(taker.OnSeed(0, "node 1", ToFrame(comparer.Seeds()[0])).ok());
}

}  // namespace
}  // namespace strata::worker
