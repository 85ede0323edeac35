#include "server/coordinator/placement.h"

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

TEST(PlaceChunks, ChoosesTheChunkByModelAndShards) {
  // 8 Mi elements over 3 shards: 32 MiB / 192, down to a cache line.
  EXPECT_EQ(PlaceChunks(8 << 20, 0, kServers)->placement.chunk_elements(),
            (32 << 20) / 192 / 64 * 64 / 4);
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

}  // namespace
}  // namespace strata::server
