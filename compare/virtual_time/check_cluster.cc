#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/number_check.h"
#include "compare/virtual_time/cluster_file.h"

namespace strata::compare {
namespace {

constexpr uint32_t kNodesMax = 1024, kSlotsMax = 1024, kServersMax = 256, kShardsMax = 64;

// "nodes[2].link" + ".gbit_per_s"
absl::Status PositiveAt(const std::string& where, const char* field, double value) {
  return Positive(absl::StrCat(where, field).c_str(), value);
}
absl::Status NotNegativeAt(const std::string& where, const char* field, double value) {
  return NotNegative(absl::StrCat(where, field).c_str(), value);
}

absl::Status AtMost(const std::string& where, const char* field, double value, double max) {
  if (value <= max) return absl::OkStatus();
  return Refuse(absl::StrFormat("%s%s: %g is more than %g", where, field, value, max));
}
// A time, of which more than 0 or no less than 0 has been checked.
absl::Status CheckMilliseconds(const std::string& where, const char* field, double value) {
  constexpr double kMillisecondsMax = 1e7;
  return AtMost(where, field, value, kMillisecondsMax);
}

// `Host` has an optional link.
template <typename Host>
absl::Status CheckLink(const std::string& where, const Host& host) {
  if (!host.has_link()) {
    return Refuse(
        absl::StrCat(where, ": is missing, as in link { gbit_per_s: 10 latency_us: 20 }"));
  }
  const proto::Link& link = host.link();
  return All({PositiveAt(where, ".gbit_per_s", link.gbit_per_s()),
              NotNegativeAt(where, ".latency_us", link.latency_us()),
              NotNegativeAt(where, ".jitter_us", link.jitter_us())});
}

absl::Status CheckTime(const std::string& where, const proto::Compute& compute) {
  switch (compute.time_case()) {
    case proto::Compute::TIME_NOT_SET:
      return Refuse(
          absl::StrCat(where, ": one of constant_ms, normal, log_normal, trace_file is required"));
    case proto::Compute::kConstantMs:
      return All({PositiveAt(where, ".constant_ms", compute.constant_ms()),
                  CheckMilliseconds(where, ".constant_ms", compute.constant_ms())});
    case proto::Compute::kNormal:
      return All(
          {PositiveAt(where, ".normal.mean_ms", compute.normal().mean_ms()),
           CheckMilliseconds(where, ".normal.mean_ms", compute.normal().mean_ms()),
           NotNegativeAt(where, ".normal.deviation_ms", compute.normal().deviation_ms()),
           CheckMilliseconds(where, ".normal.deviation_ms", compute.normal().deviation_ms())});
    case proto::Compute::kLogNormal:
      return All(
          {PositiveAt(where, ".log_normal.median_ms", compute.log_normal().median_ms()),
           CheckMilliseconds(where, ".log_normal.median_ms", compute.log_normal().median_ms()),
           NotNegativeAt(where, ".log_normal.sigma", compute.log_normal().sigma()),
           AtMost(where, ".log_normal.sigma", compute.log_normal().sigma(), 10)});
    case proto::Compute::kTraceFile:
      if (compute.trace_file().empty()) return Refuse(absl::StrCat(where, ".trace_file: is empty"));
      break;
  }
  return absl::OkStatus();
}

absl::Status CheckCompute(const std::string& where, const proto::Compute& compute) {
  if (absl::Status status = CheckTime(where, compute); !status.ok()) return status;
  if (!(compute.forward_share() > 0 && compute.forward_share() < 1)) {
    return Refuse(absl::StrFormat("%s.forward_share: %g is not a number > 0 and < 1", where,
                                  compute.forward_share()));
  }
  return All(
      {PositiveAt(where, ".slow", compute.slow()), AtMost(where, ".slow", compute.slow(), 1e4)});
}

absl::Status CheckGroup(const std::string& where, const proto::NodeGroup& group, bool needs_link) {
  const absl::Status ranges =
      All({InRange((where + ".count").c_str(), group.count(), 1, kNodesMax),
           InRange((where + ".ranks").c_str(), group.ranks(), 1, kSlotsMax)});
  if (!ranges.ok()) return ranges;
  if (absl::Status status = CheckCompute(where + ".compute", group.compute()); !status.ok()) {
    return status;
  }
  if (needs_link || group.has_link()) {
    if (absl::Status status = CheckLink(where + ".link", group); !status.ok()) return status;
  }
  return PositiveAt(where, ".aggregation_gb_per_s", group.aggregation_gb_per_s());
}

absl::Status CheckServers(const proto::Servers& servers, uint32_t nodes) {
  const absl::Status numbers =
      All({InRange("servers.count", servers.count(), 1, kServersMax),
           InRange("servers.shards", servers.shards(), 1, kShardsMax),
           NotNegative("servers.cpu_ns_per_byte", servers.cpu_ns_per_byte()),
           NotNegative("servers.cpu_us_per_frame", servers.cpu_us_per_frame())});
  if (!numbers.ok()) return numbers;
  if (!servers.on_nodes()) return CheckLink("servers.link", servers);
  if (servers.has_link()) return Refuse("servers.link: servers on_nodes have the nodes' links");
  if (!servers.site().empty()) return Refuse("servers.site: servers on_nodes are at the nodes'");
  if (servers.count() <= nodes) return absl::OkStatus();
  return Refuse(absl::StrFormat("servers.count: %d on_nodes, but there are %d nodes",
                                servers.count(), nodes));
}

using SitePair = std::pair<std::string, std::string>;

absl::Status CheckSiteLink(const std::string& where, const proto::SiteLink& link,
                           const std::set<std::string>& sites, std::set<SitePair>* joined) {
  if (link.sites_size() != 2 || link.sites(0) == link.sites(1)) {
    return Refuse(absl::StrCat(where, ".sites: two different ones are required"));
  }
  for (const std::string& site : link.sites()) {
    if (sites.count(site) == 0) {
      return Refuse(absl::StrFormat("%s.sites: no host is at \"%s\"", where, site));
    }
  }
  if (!joined->insert(std::minmax(link.sites(0), link.sites(1))).second) {
    return Refuse(absl::StrFormat("%s.sites: \"%s\" and \"%s\" are joined already", where,
                                  link.sites(0), link.sites(1)));
  }
  return All({PositiveAt(where, ".gbit_per_s", link.gbit_per_s()),
              NotNegativeAt(where, ".latency_ms", link.latency_ms()),
              NotNegativeAt(where, ".jitter_ms", link.jitter_ms())});
}

// Every two sites that have hosts are joined.
absl::Status CheckSites(const proto::Cluster& cluster) {
  std::set<std::string> sites;
  for (const proto::NodeGroup& group : cluster.nodes()) sites.insert(group.site());
  const proto::Servers& servers = cluster.servers();
  if (cluster.has_servers() && !servers.on_nodes()) sites.insert(servers.site());
  std::set<SitePair> joined;
  for (int i = 0; i < cluster.site_links_size(); ++i) {
    const absl::Status status =
        CheckSiteLink(absl::StrFormat("site_links[%d]", i), cluster.site_links(i), sites, &joined);
    if (!status.ok()) return status;
  }
  for (auto a = sites.begin(); a != sites.end(); ++a) {
    for (auto b = std::next(a); b != sites.end(); ++b) {
      if (joined.count({*a, *b}) > 0) continue;
      return Refuse(absl::StrFormat("site_links: none joins \"%s\" and \"%s\"", *a, *b));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCluster(const proto::Cluster& cluster) {
  if (cluster.nodes().empty()) return Refuse("nodes: at least one group is required");
  uint64_t nodes = 0;
  for (const proto::NodeGroup& group : cluster.nodes()) nodes += group.count();
  const bool has_servers = cluster.has_servers();
  const bool needs_link = nodes > 1 || (has_servers && !cluster.servers().on_nodes());
  for (int i = 0; i < cluster.nodes_size(); ++i) {
    const absl::Status status =
        CheckGroup(absl::StrFormat("nodes[%d]", i), cluster.nodes(i), needs_link);
    if (!status.ok()) return status;
  }
  if (nodes > kNodesMax) return InRange("nodes: all counts together", nodes, 1, kNodesMax);
  if (has_servers) {
    if (absl::Status status = CheckServers(cluster.servers(), nodes); !status.ok()) return status;
  }
  if (absl::Status status = CheckSites(cluster); !status.ok()) return status;
  return Positive("memory_gb_per_s", cluster.memory_gb_per_s());
}

}  // namespace strata::compare
