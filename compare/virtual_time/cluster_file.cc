#include "compare/virtual_time/cluster_file.h"

#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/counted.h"
#include "common/job/number_check.h"
#include "common/os/atomic_file.h"
#include "common/os/message_bounds.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace strata::compare {
namespace {

constexpr size_t kFileBytesMax = 16 << 20;

// The field before the place (line, column), both from 0: what stands before the last ':' there.
std::string FieldAt(const std::string& text, int line, int column) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (line < 0 || static_cast<size_t>(line) >= lines.size()) return "";
  const std::string before = lines[line].substr(0, column);
  const size_t colon = before.rfind(':');
  if (colon == std::string::npos) return "";
  size_t begin = colon;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(before[begin - 1])) ||
                       before[begin - 1] == '_')) {
    --begin;
  }
  return before.substr(begin, colon - begin);
}

// Keeps the first error as one line with its place, counted from 1 (the parser counts from 0).
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  void AddError(int line, int column, const std::string& message) override {
    if (!line_.empty()) return;
    const bool names_field = message.find("field") != std::string::npos;
    const std::string field = names_field ? "" : FieldAt(text_, line, column);
    line_ = absl::StrFormat("%s:%d:%d: %s%s%s", source_, line + 1, column + 1, field,
                            field.empty() ? "" : ": ", message);
  }
  const std::string& line() const { return line_; }

 private:
  const std::string& text_;
  const std::string& source_;
  std::string line_;
};

}  // namespace

absl::StatusOr<proto::Cluster> ParseCluster(const std::string& text, const std::string& source) {
  FirstError error(text, source);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  proto::Cluster cluster;
  if (!parser.ParseFromString(text, &cluster)) return absl::InvalidArgumentError(error.line());
  if (const absl::Status bounded = CheckBounds(cluster); !bounded.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", bounded.message()));
  }
  return cluster;
}

void FillClusterDefaults(proto::Cluster* cluster) {
  if (cluster->memory_gb_per_s() == 0) cluster->set_memory_gb_per_s(5);
  for (proto::NodeGroup& group : *cluster->mutable_nodes()) {
    if (group.name().empty()) group.set_name("node");
    if (group.count() == 0) group.set_count(1);
    if (group.ranks() == 0) group.set_ranks(1);
    if (group.aggregation_gb_per_s() == 0) group.set_aggregation_gb_per_s(8);
    if (!group.has_compute()) continue;
    proto::Compute& compute = *group.mutable_compute();
    if (compute.forward_share() == 0) compute.set_forward_share(1.0 / 3);
    if (compute.slow() == 0) compute.set_slow(1);
  }
  if (!cluster->has_servers()) return;
  proto::Servers& servers = *cluster->mutable_servers();
  if (servers.count() == 0) servers.set_count(1);
  if (servers.shards() == 0) servers.set_shards(1);
}

absl::StatusOr<std::vector<double>> ParseTrace(const std::string& text, const std::string& source) {
  std::vector<double> times;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    double time = 0;
    if (!absl::SimpleAtod(line, &time) || !(time > 0 && time <= 1e9)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s:%d: \"%s\" is not a number of milliseconds > 0", source, number, line.substr(0, 40)));
    }
    times.push_back(time);
  }
  if (times.empty()) return absl::InvalidArgumentError(absl::StrCat(source, ": has no line"));
  return times;
}

namespace {

// Reads the traces that the cluster of the file at `path` names, which lie beside it.
absl::Status ReadTraces(const std::string& path, ClusterFile* file) {
  for (int i = 0; i < file->cluster.nodes_size(); ++i) {
    const std::string& name = file->cluster.nodes(i).compute().trace_file();
    if (name.empty() || file->traces.count(name) > 0) continue;
    const std::string trace = (std::filesystem::path(path).parent_path() / name).string();
    const absl::StatusOr<std::string> text = ReadFile(trace, kFileBytesMax);
    if (!text.ok()) {
      return absl::Status(text.status().code(),
                          absl::StrFormat("%s: nodes[%d].compute.trace_file: %s", path, i,
                                          std::string(text.status().message())));
    }
    absl::StatusOr<std::vector<double>> times = ParseTrace(*text, trace);
    if (!times.ok()) return times.status();
    file->traces[name] = *std::move(times);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClusterFile> ReadCluster(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFileOrPipe(path, kFileBytesMax);
  if (!text.ok()) return text.status();
  absl::StatusOr<proto::Cluster> cluster = ParseCluster(*text, path);
  if (!cluster.ok()) return cluster.status();
  ClusterFile file{.cluster = *std::move(cluster), .traces = {}};
  FillClusterDefaults(&file.cluster);
  if (file.cluster.name().empty()) {
    file.cluster.set_name(std::filesystem::path(path).stem().string());
  }
  if (absl::Status status = CheckCluster(file.cluster); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(status.message())));
  }
  if (absl::Status status = ReadTraces(path, &file); !status.ok()) return status;
  return file;
}

std::string DescribeCluster(const ClusterFile& file) {
  const proto::Cluster& cluster = file.cluster;
  uint64_t nodes = 0, slots = 0;
  for (const proto::NodeGroup& group : cluster.nodes()) {
    nodes += group.count();
    slots += uint64_t{group.count()} * group.ranks();
  }
  std::string text = absl::StrCat("virtual time, ", cluster.name(), ": ", Counted(nodes, "node"),
                                  ", ", Counted(slots, "slot"));
  if (cluster.has_servers()) {
    absl::StrAppend(&text, ", ", Counted(cluster.servers().count(), "server"), " x ",
                    Counted(cluster.servers().shards(), "shard"));
  }
  std::string all = cluster.SerializeAsString();
  for (const auto& [name, times] : file.traces) {
    absl::StrAppend(&all, name, ":", absl::StrJoin(times, " "));
  }
  const XXH64_hash_t hash = XXH3_64bits(all.data(), all.size());
  return absl::StrFormat("%s (%08x)", text, static_cast<uint32_t>(hash));
}

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
