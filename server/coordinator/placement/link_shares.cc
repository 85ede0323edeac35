#include "server/coordinator/placement/link_shares.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "common/require.h"

namespace strata::server {
namespace {

uint32_t NodesOn(const std::vector<LinkHost>& hosts) {
  uint32_t nodes = 0;
  for (const LinkHost& host : hosts) nodes += host.nodes;
  return nodes;
}

// A host whose load grows with its share: at `level` of load / rate it holds
// (level - start) * slope, nothing below the start.
struct Filling {
  size_t host = 0;
  double start = 0;
  double slope = 0;

  double At(double level) const { return std::max(0.0, level - start) * slope; }
};

double SumAt(const std::vector<Filling>& fillings, double level) {
  double sum = 0;
  for (const Filling& filling : fillings) sum += filling.At(level);
  return sum;
}

// The level at which they hold everything; infinite where there are none.
double LevelOfAll(std::vector<Filling> fillings) {
  std::sort(fillings.begin(), fillings.end(),
            [](const Filling& a, const Filling& b) { return a.start < b.start; });
  double slope = 0, offset = 0;
  double level = std::numeric_limits<double>::infinity();
  for (const Filling& filling : fillings) {
    if (filling.start >= level) break;
    slope += filling.slope;
    offset += filling.slope * filling.start;
    level = (1 + offset) / slope;
  }
  return level;
}

double SlowestLoad(const std::vector<LinkHost>& hosts, const std::vector<double>& shares) {
  double step = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    step = std::max(step, LinkLoad(hosts[i].nodes, NodesOn(hosts), shares[i]) / hosts[i].rate);
  }
  return step;
}

}  // namespace

double LinkLoad(uint32_t nodes_here, uint32_t nodes, double share) {
  return nodes_here * (1 - share) + (nodes - nodes_here) * share;
}

LinkShares BalanceLinks(const std::vector<LinkHost>& hosts) {
  const uint32_t nodes = NodesOn(hosts);
  STRATA_REQUIRE(nodes > 0);
  STRATA_REQUIRE(std::any_of(hosts.begin(), hosts.end(),
                             [](const LinkHost& host) { return host.has_shards; }));
  STRATA_REQUIRE(
      std::all_of(hosts.begin(), hosts.end(), [](const LinkHost& host) { return host.rate > 0; }));
  LinkShares result;
  result.of_host.assign(hosts.size(), 0);
  std::vector<Filling> fillings;
  double floor = 0;        // what the nodes' own links need at least
  double indifferent = 0;  // rates of the hosts of half of the nodes
  size_t of_most = hosts.size();
  for (size_t i = 0; i < hosts.size(); ++i) {
    const LinkHost& host = hosts[i];
    floor = std::max(floor, host.nodes / host.rate);
    if (!host.has_shards) continue;
    if (2 * host.nodes > nodes) of_most = i;
    if (2 * host.nodes == nodes) indifferent += host.rate;
    if (2 * host.nodes >= nodes) continue;
    fillings.push_back({.host = i,
                        .start = host.nodes / host.rate,
                        .slope = host.rate / (nodes - 2 * host.nodes)});
  }
  if (of_most < hosts.size()) {
    result.of_host[of_most] = 1;
  } else {
    double level = LevelOfAll(fillings);
    if (indifferent > 0) level = std::min(level, floor);
    for (const Filling& filling : fillings) result.of_host[filling.host] = filling.At(level);
    const double left = std::max(0.0, 1 - SumAt(fillings, level));
    for (size_t i = 0; i < hosts.size() && indifferent > 0; ++i) {
      const bool takes = hosts[i].has_shards && 2 * hosts[i].nodes == nodes;
      if (takes) result.of_host[i] = left * hosts[i].rate / indifferent;
    }
  }
  result.step = SlowestLoad(hosts, result.of_host);
  return result;
}

}  // namespace strata::server
