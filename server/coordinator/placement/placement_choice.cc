#include "server/coordinator/placement/placement_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "common/require.h"

namespace strata::server {
namespace {

using Wish = proto::Job::Placement;

// Shares and steps that differ by less count as equal.
constexpr double kSame = 1e-6;
constexpr size_t kNamesMax = 3;

// All hosts of a job and of its candidate servers.
struct Hosts {
  std::vector<LinkHost> links;     // rates are 1 if unknown
  std::vector<uint32_t> shards;    // by host
  std::vector<size_t> of_server;   // index into links, by server
  std::vector<double> known_rate;  // 0: unknown
  bool rates_known = false;        // for all hosts
};

class HostTable {
 public:
  size_t At(const std::string& host, const std::string& daemon, double rate) {
    const std::string key =
        host.empty() ? absl::StrCat("daemon ", daemon) : absl::StrCat("host ", host);
    const auto [it, is_new] = index_.emplace(key, hosts.links.size());
    if (is_new) {
      hosts.links.emplace_back();
      hosts.shards.push_back(0);
      hosts.known_rate.push_back(0);
    }
    double& known = hosts.known_rate[it->second];
    if (rate > 0) known = known > 0 ? std::min(known, rate) : rate;
    return it->second;
  }

  Hosts hosts;

 private:
  std::map<std::string, size_t> index_;
};

Hosts GatherHosts(const std::vector<NodeHost>& nodes, const std::vector<ServerShards>& servers) {
  HostTable table;
  for (const NodeHost& node : nodes) {
    const size_t at = table.At(node.host, node.daemon, node.link_bytes_per_s);
    ++table.hosts.links[at].nodes;
  }
  for (const ServerShards& server : servers) {
    const size_t at = table.At(server.host, server.daemon, server.link_bytes_per_s);
    table.hosts.links[at].has_shards = true;
    table.hosts.shards[at] += server.ports.size();
    table.hosts.of_server.push_back(at);
  }
  Hosts hosts = std::move(table.hosts);
  hosts.rates_known = std::all_of(hosts.known_rate.begin(), hosts.known_rate.end(),
                                  [](double rate) { return rate > 0; });
  for (size_t i = 0; i < hosts.links.size() && hosts.rates_known; ++i) {
    hosts.links[i].rate = hosts.known_rate[i];
  }
  return hosts;
}

bool Allows(Wish wish, const LinkHost& host) {
  return host.has_shards &&
         (wish == proto::Job::MIXED || (wish == proto::Job::DEDICATED) == (host.nodes == 0));
}

// The servers and shares that a wish leads to.
struct Option {
  Wish wish = proto::Job::AUTO;
  LinkShares shares;
  size_t hosts_used = 0;  // hosts that hold chunks or run nodes
};

bool HasServers(const Hosts& hosts, bool on_nodes) {
  return std::any_of(hosts.links.begin(), hosts.links.end(), [on_nodes](const LinkHost& host) {
    return host.has_shards && (host.nodes > 0) == on_nodes;
  });
}

// Returns nullopt if servers that the wish needs are missing.
std::optional<Option> EvaluateWish(Wish wish, const Hosts& hosts) {
  if (wish != proto::Job::DEDICATED && !HasServers(hosts, true)) return std::nullopt;
  if (wish != proto::Job::ON_WORKERS && !HasServers(hosts, false)) return std::nullopt;
  std::vector<LinkHost> links = hosts.links;
  for (LinkHost& link : links) link.has_shards = Allows(wish, link);
  Option option{.wish = wish, .shares = BalanceLinks(links), .hosts_used = 0};
  for (size_t i = 0; i < links.size(); ++i) {
    if (option.shares.of_host[i] < kSame) option.shares.of_host[i] = 0;
    if (option.shares.of_host[i] > 0 || links[i].nodes > 0) ++option.hosts_used;
  }
  return option;
}

bool IsBetter(const Option& a, const Option& b) {
  const double same = kSame * std::max(a.shares.step, b.shares.step);
  if (std::abs(a.shares.step - b.shares.step) > same) return a.shares.step < b.shares.step;
  return a.hosts_used < b.hosts_used;
}

std::string Percent(double share) {
  return absl::StrCat(absl::StrFormat("%.1f", share * 100), " %");
}

// "4 hosts without a node hold 15.2 % each"
std::string SharesText(const Hosts& hosts, const Option& option, bool on_nodes) {
  double least = 1, most = 0;
  size_t count = 0;
  for (size_t i = 0; i < hosts.links.size(); ++i) {
    const double share = option.shares.of_host[i];
    if (share == 0 || (hosts.links[i].nodes > 0) != on_nodes) continue;
    least = std::min(least, share);
    most = std::max(most, share);
    ++count;
  }
  if (count == 0) return "";
  const std::string least_text = Percent(least), most_text = Percent(most);
  return absl::StrCat(Counted(count, "host"), on_nodes ? " with nodes " : " without nodes ",
                      count == 1 ? "holds " : "hold ", least_text,
                      least_text == most_text ? "" : absl::StrCat(" to ", most_text),
                      count == 1 || least_text != most_text ? "" : " each");
}

// The time per step of the slowest link.
std::string StepText(const Hosts& hosts, const Option& option, uint64_t model_bytes) {
  if (!hosts.rates_known) return absl::StrFormat("%.2f", option.shares.step);
  const double seconds = option.shares.step * model_bytes;
  return seconds < 1 ? absl::StrFormat("%.3g ms", seconds * 1e3)
                     : absl::StrFormat("%.3g s", seconds);
}

std::string LinksText(const Hosts& hosts) {
  if (!hosts.rates_known) return "rates unknown, taken as equal";
  constexpr double kGbit = 8e-9;
  const auto [least, most] = std::minmax_element(hosts.known_rate.begin(), hosts.known_rate.end());
  const std::string most_text = absl::StrFormat("%.4g Gbit/s", *most * kGbit);
  if (*least == *most) return absl::StrCat("links of ", most_text);
  return absl::StrFormat("links of %.4g to %s", *least * kGbit, most_text);
}

// "the slowest link takes 12.7 ms a step (ON_WORKERS 17.5 ms; links of 10 Gbit/s)"
std::string CostText(const Hosts& hosts, const Option& option, const std::vector<Option>& others,
                     uint64_t model_bytes) {
  const std::string step = StepText(hosts, option, model_bytes);
  std::string text =
      hosts.rates_known
          ? absl::StrCat("the last link ends after ", step, " of a step (")
          : absl::StrCat("at most ", step, " x the model crosses a link each way in a step (");
  for (const Option& other : others) {
    absl::StrAppend(&text, proto::Job::Placement_Name(other.wish), " ",
                    StepText(hosts, other, model_bytes), hosts.rates_known ? ", " : " x, ");
  }
  return absl::StrCat(text, LinksText(hosts), ")");
}

std::string Unused(const std::vector<ServerShards>& servers, const Hosts& hosts,
                   const Option& option) {
  std::vector<std::string> names;
  size_t more = 0;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (option.shares.of_host[hosts.of_server[i]] > 0) continue;
    if (names.size() < kNamesMax) {
      names.push_back(servers[i].daemon);
    } else {
      ++more;
    }
  }
  if (names.empty()) return "";
  return absl::StrCat("; not used: ", absl::StrJoin(names, ", "),
                      more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

std::string ReasonFor(const Option& option, const std::vector<Option>& others, bool is_auto,
                      const Hosts& hosts, const std::vector<ServerShards>& servers,
                      uint64_t model_bytes) {
  const std::string name = proto::Job::Placement_Name(option.wish);
  const std::string how = is_auto ? absl::StrCat(name, " (AUTO): ") : absl::StrCat(name, ": ");
  if (hosts.links.size() == 1) {
    return absl::StrCat(how, "all nodes and servers are on one host, so ",
                        servers.size() == 1 ? "its server holds" : "its servers hold", " all");
  }
  const std::string dedicated = SharesText(hosts, option, false);
  const std::string on_nodes = SharesText(hosts, option, true);
  const std::string both = dedicated.empty() || on_nodes.empty() ? "" : ", ";
  return absl::StrCat(how, dedicated, both, on_nodes, ": ",
                      option.shares.step == 0 ? "nothing crosses a link"
                                              : CostText(hosts, option, others, model_bytes),
                      Unused(servers, hosts, option));
}

absl::Status Impossible(Wish wish, const Hosts& hosts, const std::vector<ServerShards>& servers) {
  const bool lacks_dedicated = wish != proto::Job::ON_WORKERS && !HasServers(hosts, false);
  std::vector<std::string> names;
  for (const ServerShards& server : servers) names.push_back(server.daemon);
  if (names.size() > kNamesMax) {
    names.resize(kNamesMax);
    names.push_back("...");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "placement: ", proto::Job::Placement_Name(wish), " needs a server on a host ",
      lacks_dedicated ? "without a node of the job; " : "that runs a node of the job; ",
      names.empty() ? "no server is reached by all nodes"
                    : absl::StrCat("those that all nodes reach (", absl::StrJoin(names, ", "), ") ",
                                   lacks_dedicated ? "run one" : "are elsewhere")));
}

uint32_t NodesOn(const std::vector<LinkHost>& hosts) {
  uint32_t nodes = 0;
  for (const LinkHost& host : hosts) nodes += host.nodes;
  return nodes;
}

// A host whose load grows with its share: at `level` of load / rate it holds (level - start) *
// slope, nothing below the start.
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

// The level at which they hold everything; infinite if there are none.
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

absl::StatusOr<PlacementChoice> ChoosePlacement(Wish wish, uint64_t model_bytes,
                                                const std::vector<NodeHost>& nodes,
                                                const std::vector<ServerShards>& servers) {
  STRATA_REQUIRE(!nodes.empty());
  const Hosts hosts = GatherHosts(nodes, servers);
  const bool is_auto = wish == proto::Job::AUTO;
  std::vector<Option> options;
  for (const Wish one : {proto::Job::ON_WORKERS, proto::Job::DEDICATED, proto::Job::MIXED}) {
    if (!is_auto && one != wish) continue;
    if (std::optional<Option> option = EvaluateWish(one, hosts))
      options.push_back(*std::move(option));
  }
  if (options.empty()) {
    if (is_auto) return absl::FailedPreconditionError("no server is reached by all nodes");
    return Impossible(wish, hosts, servers);
  }
  size_t at = 0;
  for (size_t i = 1; i < options.size(); ++i) {
    if (IsBetter(options[i], options[at])) at = i;
  }
  const Option best = options[at];
  options.erase(options.begin() + at);
  PlacementChoice choice;
  choice.reason = ReasonFor(best, options, is_auto, hosts, servers, model_bytes);
  for (size_t i = 0; i < servers.size(); ++i) {
    const size_t host = hosts.of_server[i];
    if (best.shares.of_host[host] == 0) continue;
    choice.servers.push_back(servers[i]);
    choice.servers.back().share =
        best.shares.of_host[host] * servers[i].ports.size() / hosts.shards[host];
  }
  return choice;
}

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
  double indifferent = 0;  // sum of rates of the hosts with exactly half of the nodes
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
