#include "server/coordinator/placement/placement.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

const std::vector<ServerShards> kServers = {{"s1", "10.0.0.1", {5001, 5002}},
                                            {"s2", "fe80::1", {6001}}};

TEST(PlaceChunks, GoesRoundAllShardsOfAllServers) {
  const JobPlacement result = *PlaceChunks(2000, 300, kServers);
  const proto::Placement& placement = result.placement;
  ASSERT_EQ(placement.shard_endpoints_size(), 3);
  EXPECT_EQ(placement.shard_endpoints(0), "tcp://10.0.0.1:5001");
  EXPECT_EQ(placement.shard_endpoints(1), "tcp://10.0.0.1:5002");
  EXPECT_EQ(placement.shard_endpoints(2), "tcp://[fe80::1]:6001");
  EXPECT_EQ(placement.chunk_elements(), 300);
  EXPECT_EQ(placement.generation(), 1);
  EXPECT_EQ(
      std::vector<uint32_t>(placement.shard_of_chunk().begin(), placement.shard_of_chunk().end()),
      (std::vector<uint32_t>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(result.shards_of_server, (std::vector<std::vector<uint32_t>>{{0, 1}, {2}}));
}

std::vector<uint32_t> ShardsOf(const JobPlacement& result) {
  return {result.placement.shard_of_chunk().begin(), result.placement.shard_of_chunk().end()};
}

// As many servers as shares, each with one shard.
std::vector<ServerShards> WithShares(const std::vector<double>& shares) {
  std::vector<ServerShards> servers;
  for (const double share : shares) {
    ServerShards& server = servers.emplace_back();
    server.address = "host";
    server.ports = {5000};
    server.share = share;
  }
  return servers;
}

TEST(PlaceChunks, WithEqualSharesIsRoundRobinForEveryNumberOfChunksAndShards) {
  for (uint32_t shards = 1; shards <= 9; ++shards) {
    const std::vector<ServerShards> servers = WithShares(std::vector<double>(shards, 1.0 / shards));
    for (uint32_t chunks = 1; chunks <= 200; ++chunks) {
      const std::vector<uint32_t> placed = ShardsOf(*PlaceChunks(chunks * 256ULL, 256, servers));
      ASSERT_EQ(placed.size(), chunks);
      for (uint32_t c = 0; c < chunks; ++c) ASSERT_EQ(placed[c], c % shards) << c << " " << chunks;
    }
  }
}

TEST(PlaceChunks, InterleavesUnequalShares) {
  EXPECT_EQ(ShardsOf(*PlaceChunks(8 * 256, 256, WithShares({0.5, 0.25, 0.25}))),
            (std::vector<uint32_t>{0, 1, 2, 0, 0, 1, 2, 0}));
  EXPECT_EQ(ShardsOf(*PlaceChunks(5 * 256, 256, WithShares({0.1, 0.9}))),
            (std::vector<uint32_t>{1, 1, 0, 1, 1}));
}

TEST(PlaceChunks, GivesEachShardItsShareOfEveryRunOfChunks) {
  const std::vector<double> shares = {0.07, 0.31, 0.02, 0.6};
  const uint32_t chunks = 1000;
  const std::vector<uint32_t> placed =
      ShardsOf(*PlaceChunks(chunks * 256, 256, WithShares(shares)));
  std::vector<double> count(shares.size(), 0);
  for (uint32_t c = 0; c < chunks; ++c) {
    ++count[placed[c]];
    for (size_t s = 0; s < shares.size(); ++s) {
      ASSERT_NEAR(count[s], shares[s] * (c + 1), 1.5) << c << " " << s;
    }
  }
  EXPECT_EQ(count, (std::vector<double>{70, 310, 20, 600}));
}

TEST(PlaceChunks, RoundsByLargestRemainder) {
  // 7 chunks: 0.7, 2.8, 3.5 of them.
  EXPECT_EQ(ShardsOf(*PlaceChunks(7 * 256, 256, WithShares({0.1, 0.4, 0.5}))),
            (std::vector<uint32_t>{1, 2, 0, 1, 2, 1, 2}));
}

TEST(PlaceChunks, SplitsAServersShareEvenlyOverItsShards) {
  std::vector<ServerShards> servers = WithShares({0.5, 0.5});
  servers[1].ports = {5000, 5001};
  EXPECT_EQ(ShardsOf(*PlaceChunks(4 * 256, 256, servers)), (std::vector<uint32_t>{0, 1, 2, 0}));
}

TEST(PlaceChunks, ChoosesTheChunkByModelAndShards) {
  // 8 Mi elements over 3 shards: 32 MiB / 384, down to a cache line.
  EXPECT_EQ(PlaceChunks(8 << 20, 0, kServers)->placement.chunk_elements(),
            (32 << 20) / 384 / 64 * 64 / 4);
  EXPECT_EQ(PlaceChunks(1000, 0, kServers)->placement.shard_of_chunk_size(), 1);
}

TEST(PlaceChunks, WithoutServersThereIsOnlyTheChunkSize) {
  const JobPlacement result = *PlaceChunks(1000, 256, {});
  EXPECT_EQ(result.placement.chunk_elements(), 256);
  EXPECT_EQ(result.placement.shard_of_chunk_size(), 0);
}

TEST(PlaceChunks, RefusesMoreChunksThanAMessageHolds) {
  EXPECT_EQ(PlaceChunks(1ULL << 32, 256, kServers).status(),
            absl::InvalidArgumentError("chunk_elements: 256 cuts 4294967296 elements into 16777216 "
                                       "chunks; at most 1048576 are possible"));
}

TEST(DeviceChunkElements, AreTwoMebibytesWhereEachShardHasEight) {
  EXPECT_EQ(DeviceChunkElements(25'557'032, 4), 524'288u);  // ResNet-50
  EXPECT_EQ(DeviceChunkElements(8'000'000, 4), 250'000u);   // eight on each shard
  EXPECT_EQ(DeviceChunkElements(61'706, 4), 61'706u);       // LeNet-5: one chunk, as ever
  EXPECT_EQ(DeviceChunkElements(1'000'000'000, 0), 524'288u);
  EXPECT_EQ(DeviceChunkElements(200'000, 1), 24'992u);  // of cache lines
}

}  // namespace
}  // namespace strata::server
