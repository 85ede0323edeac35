#include "compare/virtual_time/cluster_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cctype>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/counted.h"
#include "common/file/atomic_file.h"
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

// Those that the cluster of the file at `path` names, beside it.
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
  absl::StatusOr<std::string> text = ReadFile(path, kFileBytesMax);
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

}  // namespace strata::compare
