#include "server/coordinator/placement/link_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

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

// Whether shares exist with which no link has more than `step` of load / rate: from each host's
// least and greatest share, with no thought of an order among them.
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
