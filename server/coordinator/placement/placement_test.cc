#include "server/coordinator/placement/placement.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
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

TEST(PlaceBuckets, GoesRoundAllShardsByTheirShares) {
  const auto placed = [](uint32_t wanted, const std::vector<double>& shares) {
    proto::Placement placement = PlaceChunks(1, 0, WithShares(shares))->placement;
    PlaceBuckets(wanted, WithShares(shares), &placement);
    return std::vector<uint32_t>(placement.shard_of_bucket().begin(),
                                 placement.shard_of_bucket().end());
  };
  EXPECT_EQ(placed(4, {0.5, 0.5}), (std::vector<uint32_t>{0, 1, 0, 1}));
  EXPECT_EQ(placed(8, {0.75, 0.25}), (std::vector<uint32_t>{0, 0, 1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(placed(0, {1}).size(), 8u);
  EXPECT_EQ(placed(0, std::vector<double>(9, 1)).size(), 128u);
  EXPECT_EQ(placed(0, std::vector<double>(256, 1)).size(), 2048u);
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

// Server i with `threads` shards, on host "hostI" or the given one.
ServerShards Server(size_t i, size_t threads, const std::string& host = "", double share = 0) {
  ServerShards server;
  server.daemon = absl::StrCat("s", i);
  server.address = absl::StrCat("10.0.0.", i);
  server.host = host.empty() ? absl::StrCat("host", i) : host;
  for (size_t thread = 0; thread < threads; ++thread) server.ports.push_back(5000 + thread);
  server.share = share;
  return server;
}

JobPlacement PlacedOn(const std::vector<ServerShards>& servers, uint32_t chunks) {
  return *PlaceChunks(uint64_t{chunks} * 256, 256, servers);
}

// Chunks of primaries and backups on each thread, in order.
std::vector<uint64_t> Loads(const JobPlacement& placement, const std::vector<ServerShards>& servers,
                            const std::vector<std::optional<BackupPlace>>& backups) {
  std::vector<uint64_t> chunks(backups.size(), 0), loads;
  for (const uint32_t shard : placement.placement.shard_of_chunk()) ++chunks[shard];
  for (size_t server = 0; server < servers.size(); ++server) {
    for (size_t thread = 0; thread < servers[server].ports.size(); ++thread) {
      uint64_t& load = loads.emplace_back(0);
      if (server < placement.shards_of_server.size()) {
        load += chunks[placement.shards_of_server[server][thread]];
      }
      for (size_t shard = 0; shard < backups.size(); ++shard) {
        if (backups[shard] == BackupPlace{server, thread}) load += chunks[shard];
      }
    }
  }
  return loads;
}

TEST(PlaceBackups, LieOnAnotherHostAndAreSpread) {
  for (size_t count = 2; count <= 6; ++count) {
    for (size_t threads = 1; threads <= 3; ++threads) {
      std::vector<ServerShards> servers;
      for (size_t i = 0; i < count; ++i) servers.push_back(Server(i, threads));
      const uint32_t chunks = static_cast<uint32_t>(10 * count * threads);
      const JobPlacement placement = PlacedOn(servers, chunks);
      const auto backups = PlaceBackups(placement, servers);
      ASSERT_TRUE(backups.ok());
      for (size_t server = 0; server < count; ++server) {
        for (const uint32_t shard : placement.shards_of_server[server]) {
          ASSERT_TRUE((*backups)[shard].has_value());
          EXPECT_NE((*backups)[shard]->server, server);
        }
      }
      for (const uint64_t load : Loads(placement, servers, *backups)) {
        EXPECT_EQ(load, 20u) << count << " servers of " << threads;
      }
    }
  }
}

TEST(PlaceBackups, ServersOfOneHostDoNotBackEachOther) {
  const std::vector<ServerShards> servers = {Server(0, 1, "a"), Server(1, 1, "a"),
                                             Server(2, 1, "b")};
  const auto backups = PlaceBackups(PlacedOn(servers, 9), servers);
  ASSERT_TRUE(backups.ok());
  EXPECT_EQ((*backups)[0], BackupPlace({2, 0}));
  EXPECT_EQ((*backups)[1], BackupPlace({2, 0}));
  EXPECT_NE((*backups)[2]->server, 2u);
}

TEST(PlaceBackups, ServersThatHoldNoFirstCopyAreTakenBeforeOthers) {
  const std::vector<ServerShards> first = {Server(0, 1), Server(1, 1)};
  std::vector<ServerShards> all = first;
  all.push_back(Server(2, 1));
  all.push_back(Server(3, 1));
  const auto backups = PlaceBackups(PlacedOn(first, 8), all);
  ASSERT_TRUE(backups.ok());
  EXPECT_EQ((*backups)[0], BackupPlace({2, 0}));
  EXPECT_EQ((*backups)[1], BackupPlace({3, 0}));
}

TEST(PlaceBackups, UnequalSharesAreEvenedOut) {
  const std::vector<ServerShards> servers = {Server(0, 1, "", 0.5), Server(1, 1, "", 0.25),
                                             Server(2, 1, "", 0.25)};
  const JobPlacement placement = PlacedOn(servers, 40);
  const auto backups = PlaceBackups(placement, servers);
  ASSERT_TRUE(backups.ok());
  std::vector<uint64_t> loads = Loads(placement, servers, *backups);
  std::sort(loads.begin(), loads.end());
  EXPECT_EQ(loads, std::vector<uint64_t>({20, 30, 30}));
}

TEST(PlaceBackups, AShardWithoutAChunkHasNone) {
  const std::vector<ServerShards> servers = {Server(0, 2), Server(1, 2)};
  const auto backups = PlaceBackups(PlacedOn(servers, 3), servers);
  ASSERT_TRUE(backups.ok());
  EXPECT_TRUE((*backups)[2].has_value());
  EXPECT_FALSE((*backups)[3].has_value());
}

TEST(PlaceBackups, OneHostIsRefusedByTheNamesOfItsServers) {
  const std::vector<ServerShards> servers = {Server(1, 1, "rack1"), Server(0, 1, "rack1")};
  EXPECT_EQ(
      PlaceBackups(PlacedOn(servers, 4), servers).status(),
      absl::FailedPreconditionError(
          "replicas: a second copy lies on another host, but all servers are on one: s0, s1"));
  std::vector<ServerShards> unknown = {Server(0, 1), Server(1, 1)};
  for (ServerShards& server : unknown) {
    server.host.clear();
    server.address = "10.0.0.9";
  }
  EXPECT_EQ(PlaceBackups(PlacedOn(unknown, 4), unknown).status().message(),
            "replicas: a second copy lies on another host, but all servers are on one: s0, s1");
  std::vector<ServerShards> many;
  for (size_t i = 0; i < 7; ++i) many.push_back(Server(i, 1, "rack1"));
  EXPECT_EQ(CheckTwoHosts(many).message(),
            "replicas: a second copy lies on another host, but all servers are on one: s0, s1, s2, "
            "s3, s4, s5, ...");
}

TEST(PlaceOneBackup, LiesOnAnotherHostWhereTheJobHasFewestChunks) {
  proto::JobStatus status;
  const auto add = [&](const std::string& daemon, uint32_t thread, uint32_t chunks) {
    proto::JobShardStatus* shard = status.add_shards();
    shard->set_daemon(daemon);
    shard->set_shard(thread);
    shard->set_chunks(chunks);
    return shard;
  };
  add("s0", 0, 9);
  proto::JobShardStatus* second = add("s1", 0, 3);
  second->set_backup("s2");
  second->set_backup_shard(1);
  const std::vector<ServerShards> servers = {Server(0, 2), Server(1, 2), Server(2, 2)};
  EXPECT_EQ(PlaceOneBackup(status, ShardId(0), "host0", servers), (BackupPlace{1, 1}));
  status.mutable_shards(0)->set_backup("s1");
  status.mutable_shards(0)->set_backup_shard(1);
  EXPECT_EQ(PlaceOneBackup(status, ShardId(1), "host1", servers), (BackupPlace{0, 1}));
  EXPECT_EQ(PlaceOneBackup(status, ShardId(0), "host0", {Server(0, 2)}), std::nullopt);
}

TEST(PlaceOneBackup, ShardsThatComeOneAfterTheOtherSpreadOverThreads) {
  proto::JobStatus status;
  for (int i = 0; i < 2; ++i) status.add_shards()->set_daemon("s0");
  const std::vector<ServerShards> servers = {Server(0, 2), Server(1, 2)};
  EXPECT_EQ(PlaceOneBackup(status, ShardId(0), "host0", servers), (BackupPlace{1, 0}));
  EXPECT_EQ(PlaceOneBackup(status, ShardId(1), "host0", servers), (BackupPlace{1, 1}));
}

}  // namespace

}  // namespace strata::server
