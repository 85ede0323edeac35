#include "server/coordinator/placement/placement_choice.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/placement/link_shares.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;

using Job = proto::Job;

constexpr uint64_t kModelBytes = 1'000'000'000;

NodeHost Node(const std::string& host, double rate = 0) {
  return {.daemon = "w-" + host, .host = host, .link_bytes_per_s = rate};
}

ServerShards Server(const std::string& host, double rate = 0, uint32_t shards = 1) {
  ServerShards server;
  server.daemon = "s-" + host;
  server.address = host;
  for (uint32_t i = 0; i < shards; ++i) server.ports.push_back(5000 + i);
  server.host = host;
  server.link_bytes_per_s = rate;
  return server;
}

struct Cluster {
  std::vector<NodeHost> nodes;
  std::vector<ServerShards> servers;
};

// k servers on hosts of their own and n nodes, each with a server beside it.
Cluster Mixed(uint32_t k, uint32_t n) {
  Cluster cluster;
  for (uint32_t i = 0; i < n; ++i) {
    cluster.nodes.push_back(Node(absl::StrCat("n", i)));
    cluster.servers.push_back(Server(absl::StrCat("n", i)));
  }
  for (uint32_t i = 0; i < k; ++i) cluster.servers.push_back(Server(absl::StrCat("d", i)));
  return cluster;
}

PlacementChoice Choose(Job::Placement wish, const Cluster& cluster) {
  return *ChoosePlacement(wish, kModelBytes, cluster.nodes, cluster.servers);
}

std::vector<std::string> NamesOf(const PlacementChoice& choice) {
  std::vector<std::string> names;
  for (const ServerShards& server : choice.servers) names.push_back(server.daemon);
  return names;
}

// What crosses each host's link each way in a step, in models, counted from where the chunks are:
// every node exchanges each of them with its shard.
std::map<std::string, double> LoadsOf(const PlacementChoice& choice, const Cluster& cluster,
                                      uint32_t chunks) {
  const JobPlacement placed = *PlaceChunks(chunks * 256ULL, 256, choice.servers);
  std::map<std::string, double> loads;
  for (const NodeHost& node : cluster.nodes) {
    for (const uint32_t shard : placed.placement.shard_of_chunk()) {
      const std::string& endpoint = placed.placement.shard_endpoints(shard);
      const std::string host = endpoint.substr(6, endpoint.rfind(':') - 6);
      if (host == node.host) continue;
      loads[host] += 1.0 / chunks;
      loads[node.host] += 1.0 / chunks;
    }
  }
  return loads;
}

TEST(ChoosePlacement, MixedLoadsEveryLinkAlikeByTheChunksAsTheyArePlaced) {
  const uint32_t chunks = 20000;
  for (const uint32_t n : {2, 3, 8}) {
    for (uint32_t k = 1; k <= n; ++k) {
      const Cluster cluster = Mixed(k, n);
      const std::map<std::string, double> loads =
          LoadsOf(Choose(Job::MIXED, cluster), cluster, chunks);
      EXPECT_EQ(loads.size(), k + n);
      const double best = 2.0 * n * (n - 1) / (n * n + k * n - 2.0 * k);
      for (const auto& [host, load] : loads) {
        EXPECT_NEAR(load, best, 1.5 * n / chunks) << host << " " << n << " " << k;
      }
    }
  }
}

TEST(ChoosePlacement, OnWorkersLoadsEveryLinkAsARingDoes) {
  const Cluster cluster = Mixed(0, 8);
  for (const auto& [host, load] : LoadsOf(Choose(Job::ON_WORKERS, cluster), cluster, 8000)) {
    EXPECT_NEAR(load, 1.75, 1e-9) << host;
  }
}

TEST(ChoosePlacement, AutoTakesWhatEndsFirstAndNamesTheOthers) {
  const PlacementChoice choice = Choose(Job::AUTO, Mixed(4, 8));
  EXPECT_EQ(choice.servers.size(), 12u);
  EXPECT_EQ(choice.reason,
            "MIXED (AUTO): 4 hosts without nodes hold 15.9 % each, 8 hosts with nodes hold 4.5 % "
            "each: at most 1.27 x the model crosses a link each way in a step (ON_WORKERS 1.75 x, "
            "DEDICATED 2.00 x, rates unknown, taken as equal)");
}

TEST(ChoosePlacement, AutoLeavesTheNodesAloneWhereServersOnTheirOwnHostsSuffice) {
  const PlacementChoice choice = Choose(Job::AUTO, Mixed(4, 3));
  EXPECT_THAT(NamesOf(choice), ElementsAre("s-d0", "s-d1", "s-d2", "s-d3"));
  EXPECT_EQ(choice.reason,
            "DEDICATED (AUTO): 4 hosts without nodes hold 25.0 % each: at most 1.00 x the model "
            "crosses a link each way in a step (ON_WORKERS 1.33 x, MIXED 1.00 x, rates unknown, "
            "taken as equal); not used: s-n0, s-n1, s-n2");
}

TEST(ChoosePlacement, AutoTakesFewerHostsAmongEquals) {
  EXPECT_THAT(NamesOf(Choose(Job::AUTO, Mixed(2, 2))), ElementsAre("s-n0", "s-n1"));
  EXPECT_THAT(NamesOf(Choose(Job::AUTO, Mixed(2, 1))), ElementsAre("s-n0"));
}

TEST(ChoosePlacement, AutoTakesEveryServerOfTheOneHostThatThereIs) {
  Cluster cluster;
  cluster.nodes = {Node("a"), Node("a")};
  cluster.servers = {Server("a"), Server("a", 0, 2)};
  const PlacementChoice choice = Choose(Job::AUTO, cluster);
  ASSERT_EQ(choice.servers.size(), 2u);
  EXPECT_DOUBLE_EQ(choice.servers[1].share, 2 * choice.servers[0].share);
  EXPECT_EQ(choice.reason,
            "ON_WORKERS (AUTO): all nodes and servers are on one host, so its servers hold all");
}

TEST(ChoosePlacement, WeighsSharesByTheLinksRatesWhereAllAreKnown) {
  Cluster cluster;
  cluster.nodes = {Node("a", 5e9), Node("b", 5e9)};
  cluster.servers = {Server("c", 1e9), Server("d", 3e9, 2)};
  const PlacementChoice choice = Choose(Job::AUTO, cluster);
  EXPECT_DOUBLE_EQ(choice.servers[0].share, 0.25);
  EXPECT_DOUBLE_EQ(choice.servers[1].share, 0.75);
  EXPECT_EQ(choice.reason,
            "DEDICATED (AUTO): 2 hosts without nodes hold 25.0 % to 75.0 %: the last link ends "
            "after 500 ms of a step (links of 8 to 40 Gbit/s)");
  cluster.nodes[1].link_bytes_per_s = 0;
  EXPECT_DOUBLE_EQ(Choose(Job::AUTO, cluster).servers[0].share, 0.5);
}

TEST(ChoosePlacement, TakesTheLeastRateThatDaemonsOfAHostSay) {
  Cluster cluster;
  cluster.nodes = {Node("a", 9e9), Node("b", 9e9)};
  cluster.servers = {Server("a", 1e9), Server("b", 9e9), Server("c", 9e9)};
  const PlacementChoice choice = Choose(Job::DEDICATED, cluster);
  EXPECT_THAT(choice.reason, testing::HasSubstr("the last link ends after 1 s of a step"));
}

TEST(ChoosePlacement, TakesDaemonsThatDoNotSayTheirHostForHostsOfTheirOwn) {
  Cluster cluster;
  cluster.nodes = {{.daemon = "w1", .host = "", .link_bytes_per_s = 0}};
  cluster.servers = {Server(""), Server("")};
  cluster.servers[0].daemon = "w1x";
  cluster.servers[1].daemon = "s2";
  const PlacementChoice choice = Choose(Job::AUTO, cluster);
  EXPECT_THAT(NamesOf(choice), ElementsAre("w1x", "s2"));
  EXPECT_THAT(choice.reason, testing::StartsWith("DEDICATED (AUTO): 2 hosts without nodes"));
}

TEST(ChoosePlacement, SaysInOneLineWhatCannotBe) {
  const auto refusal = [](Job::Placement wish, const Cluster& cluster) {
    return std::string(
        ChoosePlacement(wish, kModelBytes, cluster.nodes, cluster.servers).status().message());
  };
  EXPECT_EQ(refusal(Job::DEDICATED, Mixed(0, 2)),
            "placement: DEDICATED needs a server on a host without a node of the job; those that "
            "all nodes reach (s-n0, s-n1) run one");
  EXPECT_EQ(refusal(Job::MIXED, Mixed(0, 4)),
            "placement: MIXED needs a server on a host without a node of the job; those that all "
            "nodes reach (s-n0, s-n1, s-n2, ...) run one");
  Cluster apart = Mixed(2, 1);
  apart.servers.erase(apart.servers.begin());
  EXPECT_EQ(refusal(Job::ON_WORKERS, apart),
            "placement: ON_WORKERS needs a server on a host that runs a node of the job; those "
            "that all nodes reach (s-d0, s-d1) are elsewhere");
  apart.servers.clear();
  EXPECT_EQ(refusal(Job::MIXED, apart),
            "placement: MIXED needs a server on a host without a node of the job; no server is "
            "reached by all nodes");
  EXPECT_EQ(refusal(Job::AUTO, apart), "no server is reached by all nodes");
}

}  // namespace
}  // namespace strata::server
