#include "server/coordinator/placement/placement_choice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

using Job = proto::Job;

constexpr uint64_t kModelBytes = 1'000'000'000;

NodeHost Node(const std::string& host, double rate = 0) {
  return {.daemon = "w-" + host, .host = host, .link_bytes_per_s = rate};
}

ServerShards ChoiceServer(const std::string& host, double rate = 0, uint32_t shards = 1) {
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
Cluster ChoiceMixed(uint32_t k, uint32_t n) {
  Cluster cluster;
  for (uint32_t i = 0; i < n; ++i) {
    cluster.nodes.push_back(Node(absl::StrCat("n", i)));
    cluster.servers.push_back(ChoiceServer(absl::StrCat("n", i)));
  }
  for (uint32_t i = 0; i < k; ++i) cluster.servers.push_back(ChoiceServer(absl::StrCat("d", i)));
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

// The load of each host's link in each direction per step, in models, counted from the chunks:
// every node exchanges each of them with its shard.
std::map<std::string, double> ChoiceLoadsOf(const PlacementChoice& choice, const Cluster& cluster,
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
      const Cluster cluster = ChoiceMixed(k, n);
      const std::map<std::string, double> loads =
          ChoiceLoadsOf(Choose(Job::MIXED, cluster), cluster, chunks);
      EXPECT_EQ(loads.size(), k + n);
      const double best = 2.0 * n * (n - 1) / (n * n + k * n - 2.0 * k);
      for (const auto& [host, load] : loads) {
        EXPECT_NEAR(load, best, 1.5 * n / chunks) << host << " " << n << " " << k;
      }
    }
  }
}

TEST(ChoosePlacement, OnWorkersLoadsEveryLinkAsARingDoes) {
  const Cluster cluster = ChoiceMixed(0, 8);
  for (const auto& [host, load] : ChoiceLoadsOf(Choose(Job::ON_WORKERS, cluster), cluster, 8000)) {
    EXPECT_NEAR(load, 1.75, 1e-9) << host;
  }
}

TEST(ChoosePlacement, AutoTakesWhatEndsFirstAndNamesTheOthers) {
  const PlacementChoice choice = Choose(Job::AUTO, ChoiceMixed(4, 8));
  EXPECT_EQ(choice.servers.size(), 12u);
  EXPECT_EQ(choice.reason,
            "MIXED (AUTO): 4 hosts without nodes hold 15.9 % each, 8 hosts with nodes hold 4.5 % "
            "each: at most 1.27 x the model crosses a link each way in a step (ON_WORKERS 1.75 x, "
            "DEDICATED 2.00 x, rates unknown, taken as equal)");
}

TEST(ChoosePlacement, AutoLeavesTheNodesAloneWhereServersOnTheirOwnHostsSuffice) {
  const PlacementChoice choice = Choose(Job::AUTO, ChoiceMixed(4, 3));
  EXPECT_THAT(NamesOf(choice), ElementsAre("s-d0", "s-d1", "s-d2", "s-d3"));
  EXPECT_EQ(choice.reason,
            "DEDICATED (AUTO): 4 hosts without nodes hold 25.0 % each: at most 1.00 x the model "
            "crosses a link each way in a step (ON_WORKERS 1.33 x, MIXED 1.00 x, rates unknown, "
            "taken as equal); not used: s-n0, s-n1, s-n2");
}

TEST(ChoosePlacement, AutoTakesFewerHostsAmongEquals) {
  EXPECT_THAT(NamesOf(Choose(Job::AUTO, ChoiceMixed(2, 2))), ElementsAre("s-n0", "s-n1"));
  EXPECT_THAT(NamesOf(Choose(Job::AUTO, ChoiceMixed(2, 1))), ElementsAre("s-n0"));
}

TEST(ChoosePlacement, AutoTakesEveryServerOfTheOneHostThatThereIs) {
  Cluster cluster;
  cluster.nodes = {Node("a"), Node("a")};
  cluster.servers = {ChoiceServer("a"), ChoiceServer("a", 0, 2)};
  const PlacementChoice choice = Choose(Job::AUTO, cluster);
  ASSERT_EQ(choice.servers.size(), 2u);
  EXPECT_DOUBLE_EQ(choice.servers[1].share, 2 * choice.servers[0].share);
  EXPECT_EQ(choice.reason,
            "ON_WORKERS (AUTO): all nodes and servers are on one host, so its servers hold all");
}

TEST(ChoosePlacement, WeighsSharesByTheLinksRatesWhereAllAreKnown) {
  Cluster cluster;
  cluster.nodes = {Node("a", 5e9), Node("b", 5e9)};
  cluster.servers = {ChoiceServer("c", 1e9), ChoiceServer("d", 3e9, 2)};
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
  cluster.servers = {ChoiceServer("a", 1e9), ChoiceServer("b", 9e9), ChoiceServer("c", 9e9)};
  const PlacementChoice choice = Choose(Job::DEDICATED, cluster);
  EXPECT_THAT(choice.reason, testing::HasSubstr("the last link ends after 1 s of a step"));
}

TEST(ChoosePlacement, TakesDaemonsThatDoNotSayTheirHostForHostsOfTheirOwn) {
  Cluster cluster;
  cluster.nodes = {{.daemon = "w1", .host = "", .link_bytes_per_s = 0}};
  cluster.servers = {ChoiceServer(""), ChoiceServer("")};
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
  EXPECT_EQ(refusal(Job::DEDICATED, ChoiceMixed(0, 2)),
            "placement: DEDICATED needs a server on a host without a node of the job; those that "
            "all nodes reach (s-n0, s-n1) run one");
  EXPECT_EQ(refusal(Job::MIXED, ChoiceMixed(0, 4)),
            "placement: MIXED needs a server on a host without a node of the job; those that all "
            "nodes reach (s-n0, s-n1, s-n2, ...) run one");
  Cluster apart = ChoiceMixed(2, 1);
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

constexpr double kExact = 1e-12;

// k hosts with a server, then n with a server and a node.
std::vector<LinkHost> Mixed(uint32_t k, uint32_t n) {
  std::vector<LinkHost> hosts(k, {.nodes = 0, .has_shards = true});
  hosts.resize(k + n, {.nodes = 1, .has_shards = true});
  return hosts;
}

std::vector<double> LoadsOf(const std::vector<LinkHost>& hosts, const LinkShares& shares) {
  uint32_t nodes = 0;
  for (const LinkHost& host : hosts) nodes += host.nodes;
  std::vector<double> loads;
  for (size_t i = 0; i < hosts.size(); ++i) {
    loads.push_back(LinkLoad(hosts[i].nodes, nodes, shares.of_host[i]) / hosts[i].rate);
  }
  return loads;
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Returns whether some shares keep every link at or below `step` of load / rate: from each host's
// least and greatest share, without assuming an order.
bool IsPossible(const std::vector<LinkHost>& hosts, double step) {
  double nodes = 0, least = 0, most = 0;
  for (const LinkHost& host : hosts) nodes += host.nodes;
  for (const LinkHost& host : hosts) {
    const double slope = nodes - 2 * host.nodes;
    const double room = step * host.rate - host.nodes;  // slope * share <= room
    if (!host.has_shards || slope == 0) {
      if (room < -1e-12) return false;
      if (host.has_shards) most += 1;
    } else if (slope > 0) {
      if (room < -1e-12) return false;
      most += std::clamp(room / slope, 0.0, 1.0);
    } else {
      if (room / slope > 1) return false;
      least += std::max(0.0, room / slope);
      most += 1;
    }
  }
  return least <= 1 && most >= 1;
}

double LeastStep(const std::vector<LinkHost>& hosts) {
  double low = 0, high = 1e4;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (IsPossible(hosts, middle) ? high : low) = middle;
  }
  return high;
}

TEST(LinkLoad, OfAServerOnItsOwnIsEveryNodesShareAndOfANodeAllButItsOwn) {
  EXPECT_DOUBLE_EQ(LinkLoad(0, 8, 0.25), 2);
  EXPECT_DOUBLE_EQ(LinkLoad(1, 8, 0), 1);
  EXPECT_DOUBLE_EQ(LinkLoad(1, 8, 0.125), 0.875 + 7 * 0.125);
  EXPECT_DOUBLE_EQ(LinkLoad(8, 8, 1), 0);
}

TEST(BalanceLinks, WithServersOnItsOwnHostsAndOnNodesFollowsTheClosedFormAndAllLinksEndTogether) {
  for (uint32_t n = 2; n <= 12; ++n) {
    for (uint32_t k = 0; k <= n; ++k) {
      const std::vector<LinkHost> hosts = Mixed(k, n);
      const LinkShares shares = BalanceLinks(hosts);
      const double d = n * n + k * n - 2.0 * k;
      for (uint32_t i = 0; i < k; ++i) {
        EXPECT_NEAR(shares.of_host[i], 2.0 * (n - 1) / d, kExact) << n << " " << k;
      }
      for (uint32_t i = k; i < k + n; ++i) {
        EXPECT_NEAR(shares.of_host[i], (n - k) / d, kExact) << n << " " << k;
      }
      for (const double load : LoadsOf(hosts, shares)) {
        EXPECT_NEAR(load, 2.0 * n * (n - 1) / d, kExact) << n << " " << k;
      }
      EXPECT_NEAR(Sum(shares.of_host), 1, kExact);
    }
  }
}

TEST(BalanceLinks, OfEightNodesTakesOneAndThreeQuartersWithoutFurtherHostsAndOneWithEight) {
  EXPECT_NEAR(BalanceLinks(Mixed(0, 8)).step, 1.75, kExact);
  EXPECT_NEAR(BalanceLinks(Mixed(4, 8)).step, 112 / 88.0, kExact);
  EXPECT_NEAR(BalanceLinks(Mixed(8, 8)).step, 1, kExact);
}

TEST(BalanceLinks, WithMoreServersThanNodesLeavesNothingToTheNodesAndSpreadsTheRest) {
  const LinkShares shares = BalanceLinks(Mixed(5, 3));
  EXPECT_THAT(shares.of_host,
              ElementsAre(DoubleNear(0.2, kExact), DoubleNear(0.2, kExact), DoubleNear(0.2, kExact),
                          DoubleNear(0.2, kExact), DoubleNear(0.2, kExact), 0, 0, 0));
  EXPECT_DOUBLE_EQ(shares.step, 1);  // the nodes' own links
}

TEST(BalanceLinks, OfOneNodeWithAServerBesideItUsesNoLink) {
  const LinkShares shares = BalanceLinks(Mixed(3, 1));
  EXPECT_THAT(shares.of_host, ElementsAre(0, 0, 0, 1));
  EXPECT_DOUBLE_EQ(shares.step, 0);
}

TEST(BalanceLinks, GivesTheHostOfMostNodesEverything) {
  const LinkShares shares = BalanceLinks({{.nodes = 3, .has_shards = true, .rate = 0.1},
                                          {.nodes = 1, .has_shards = true, .rate = 10},
                                          {.nodes = 1, .has_shards = true, .rate = 10},
                                          {.nodes = 0, .has_shards = true, .rate = 10}});
  EXPECT_THAT(shares.of_host, ElementsAre(1, 0, 0, 0));
  EXPECT_DOUBLE_EQ(shares.step, 20);
}

TEST(BalanceLinks, OfServersOnTheirOwnHostsGivesEachAsMuchAsItsLinkCarries) {
  const LinkShares shares = BalanceLinks({{.nodes = 0, .has_shards = true, .rate = 10},
                                          {.nodes = 0, .has_shards = true, .rate = 30},
                                          {.nodes = 1, .has_shards = false, .rate = 100},
                                          {.nodes = 1, .has_shards = false, .rate = 100}});
  EXPECT_THAT(shares.of_host,
              ElementsAre(DoubleNear(0.25, kExact), DoubleNear(0.75, kExact), 0, 0));
  EXPECT_NEAR(shares.step, 0.05, kExact);
}

TEST(BalanceLinks, HasANodeWithASlowLinkServeNobody) {
  // Its own pushes take a whole unit of time; the others split the model.
  const LinkShares shares = BalanceLinks({{.nodes = 1, .has_shards = true, .rate = 1},
                                          {.nodes = 1, .has_shards = true, .rate = 4},
                                          {.nodes = 1, .has_shards = true, .rate = 4}});
  EXPECT_THAT(shares.of_host, ElementsAre(0, DoubleNear(0.5, kExact), DoubleNear(0.5, kExact)));
  EXPECT_DOUBLE_EQ(shares.step, 1);
}

TEST(BalanceLinks, IsNeverBeatenBySharesOfAnyOtherKind) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::vector<LinkHost> hosts(1 + random() % 6);
    for (LinkHost& host : hosts) {
      host.nodes = random() % 3;
      host.has_shards = random() % 3 != 0;
      host.rate = random() % 2 == 0 ? 1 : 1 + random() % 40;
    }
    hosts[random() % hosts.size()].nodes += 1;
    hosts[random() % hosts.size()].has_shards = true;
    const LinkShares shares = BalanceLinks(hosts);
    ASSERT_NEAR(Sum(shares.of_host), 1, 1e-9) << round;
    ASSERT_GE(*std::min_element(shares.of_host.begin(), shares.of_host.end()), 0) << round;
    for (size_t i = 0; i < hosts.size(); ++i) {
      ASSERT_TRUE(hosts[i].has_shards || shares.of_host[i] == 0) << round;
    }
    const std::vector<double> loads = LoadsOf(hosts, shares);
    ASSERT_DOUBLE_EQ(*std::max_element(loads.begin(), loads.end()), shares.step) << round;
    ASSERT_NEAR(shares.step, LeastStep(hosts), 1e-8) << round;
  }
}

}  // namespace

}  // namespace strata::server
