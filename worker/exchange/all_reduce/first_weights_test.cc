#include "worker/exchange/all_reduce/first_weights.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

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
