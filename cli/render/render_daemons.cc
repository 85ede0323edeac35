#include "cli/render/render_daemons.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/options/terminal.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "common/os/memory_ledger.h"

namespace strata::cli {

namespace {

constexpr char kBytes[] = " bytes";
constexpr char kLargest[] = "largest ";

std::string Amount(const std::string& resource, uint64_t amount) {
  return absl::EndsWith(resource, kBytes) ? BytesText(amount) : absl::StrCat(amount);
}

std::string OfLimit(const std::string& resource, uint64_t used, uint64_t limit) {
  const std::string amount = Amount(resource, used);
  return limit == 0 ? amount : absl::StrCat(amount, " of ", Amount(resource, limit));
}

std::string Title(const std::string& resource) {
  return std::string(absl::StripSuffix(resource, kBytes));
}

std::vector<const proto::DaemonStatus*> Live(const proto::ListNodesReply& nodes) {
  std::vector<const proto::DaemonStatus*> live;
  if (nodes.has_coordinator()) live.push_back(&nodes.coordinator());
  for (const proto::DaemonStatus& daemon : nodes.daemons()) {
    if (daemon.alive()) live.push_back(&daemon);
  }
  return live;
}

// a / b >= c / d
bool IsFuller(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return static_cast<double>(a) * static_cast<double>(d) >
         static_cast<double>(c) * static_cast<double>(b);
}

}  // namespace

std::vector<ResourceTotal> AddUpResources(const proto::ListNodesReply& nodes) {
  std::vector<ResourceTotal> totals;
  for (const proto::DaemonStatus* daemon : Live(nodes)) {
    for (const proto::Resource& resource : daemon->resources()) {
      auto total = std::find_if(totals.begin(), totals.end(), [&](const ResourceTotal& one) {
        return one.name == resource.name();
      });
      if (total == totals.end()) total = totals.insert(total, {.name = resource.name()});
      if (absl::StartsWith(resource.name(), kLargest)) {
        total->used = std::max<uint64_t>(total->used, resource.used());
        total->limit = std::max<uint64_t>(total->limit, resource.limit());
      } else {
        total->used += resource.used();
        total->limit += resource.limit();
      }
      if (resource.limit() == 0) continue;
      if (total->fullest.empty() ||
          IsFuller(resource.used(), resource.limit(), total->fullest_used, total->fullest_limit)) {
        total->fullest = daemon->name();
        total->fullest_used = resource.used();
        total->fullest_limit = resource.limit();
      }
    }
  }
  return totals;
}

std::string ResourceTotals(const proto::ListNodesReply& nodes) {
  const std::vector<ResourceTotal> totals = AddUpResources(nodes);
  if (totals.empty()) return "";
  std::vector<Row> rows = {{"  resource", "used", "limit", "nearest to its limit"}};
  for (const ResourceTotal& total : totals) {
    rows.push_back({absl::StrCat("  ", Title(total.name)), Amount(total.name, total.used),
                    total.limit == 0 ? "-" : Amount(total.name, total.limit),
                    total.fullest.empty() ? "-"
                                          : absl::StrCat(total.fullest, ": ",
                                                         OfLimit(total.name, total.fullest_used,
                                                                 total.fullest_limit))});
  }
  return Table(rows);
}

std::string ResourcesByDaemon(const proto::ListNodesReply& nodes) {
  const std::vector<ResourceTotal> totals = AddUpResources(nodes);
  if (totals.empty()) return "";
  Row titles = {"USED"};
  Row sums = {"all"};
  for (const ResourceTotal& total : totals) {
    std::string title = Title(total.name);
    std::transform(title.begin(), title.end(), title.begin(), ::toupper);
    titles.push_back(title);
    sums.push_back(OfLimit(total.name, total.used, total.limit));
  }
  std::vector<Row> rows = {titles};
  for (const proto::DaemonStatus* daemon : Live(nodes)) {
    Row row = {daemon->name()};
    for (const ResourceTotal& total : totals) {
      row.push_back("-");
      for (const proto::Resource& resource : daemon->resources()) {
        if (resource.name() != total.name) continue;
        row.back() = OfLimit(resource.name(), resource.used(), resource.limit());
      }
    }
    rows.push_back(std::move(row));
  }
  rows.push_back(std::move(sums));
  return Table(rows);
}

std::string MemoryText(uint64_t bytes) { return bytes == 0 ? "-" : BytesText(bytes); }

namespace {

// Causes whose names are nouns that can be counted; the other names are adjectives.
constexpr const char* kNouns[] = {
    "broken seal",           "connection", "frame", "message", "registration", "rejected job",
    "rejected registration", "session"};

// "2 connections without a message", "12 malformed"
std::string CountedCause(const proto::Refusal& refusal) {
  const std::string& cause = refusal.cause();
  for (const absl::string_view noun : kNouns) {
    const absl::string_view rest = absl::StripPrefix(cause, noun);
    const bool is_it = rest.size() < cause.size() && (rest.empty() || rest.front() == ' ');
    if (is_it) return absl::StrCat(Counted(refusal.count(), std::string(noun)), rest);
  }
  return absl::StrCat(refusal.count(), " ", cause);
}

std::string Causes(const proto::DaemonStatus& daemon, bool expected) {
  std::vector<proto::Refusal> refusals(daemon.refusals().begin(), daemon.refusals().end());
  std::stable_sort(
      refusals.begin(), refusals.end(),
      [](const proto::Refusal& a, const proto::Refusal& b) { return a.count() > b.count(); });
  std::string causes;
  for (const proto::Refusal& refusal : refusals) {
    if (refusal.count() == 0 || refusal.expected() != expected) continue;
    absl::StrAppend(&causes, causes.empty() ? "" : ", ", CountedCause(refusal));
  }
  return causes;
}

std::string Line(const proto::DaemonStatus& given) {
  const proto::DaemonStatus daemon = Printable(given);
  const std::string causes = Causes(daemon, /*expected=*/false);
  const std::string planned = Causes(daemon, /*expected=*/true);
  return absl::StrCat(
      causes.empty() ? "" : absl::StrCat("  refused by ", daemon.name(), ": ", causes, "\n"),
      planned.empty()
          ? ""
          : absl::StrCat("  turned away as planned by ", daemon.name(), ": ", planned, "\n"));
}

}  // namespace

std::string RefusalsText(const proto::ListNodesReply& nodes) {
  std::string text = Line(nodes.coordinator());
  for (const auto& daemon : nodes.daemons()) absl::StrAppend(&text, Line(daemon));
  return text;
}

std::string RefusalsText(const proto::ListNodesReply& nodes, const proto::JobStatus& job) {
  std::set<std::string> names;
  for (const auto& node : job.nodes()) names.insert(node.daemon());
  for (const auto& shard : job.shards()) names.insert(shard.daemon());
  std::string text;
  for (const auto& daemon : nodes.daemons()) {
    if (names.contains(daemon.name())) absl::StrAppend(&text, Line(daemon));
  }
  return text;
}

std::string UnreachedText(const proto::ListNodesReply& nodes) {
  std::string text;
  for (const auto& daemon : nodes.daemons()) {
    for (const auto& peer : daemon.peers()) {
      if (peer.error().empty()) continue;
      absl::StrAppend(&text, "worker ", daemon.name(), " (", daemon.address(),
                      ") cannot reach server ", peer.name(), " at ", peer.address(), ": ",
                      peer.error(), "\n");
    }
  }
  return text;
}

nlohmann::ordered_json PeersJson(const proto::DaemonStatus& worker) {
  auto peers = nlohmann::ordered_json::array();
  for (const auto& peer : worker.peers()) {
    peers.push_back({{"address", peer.address()}, {"name", peer.name()}, {"error", peer.error()}});
  }
  return peers;
}

namespace {

// "job 3 (lenet)"
std::string NameOf(const proto::DrainedJob& job) {
  return absl::StrCat("job ", job.job_id(), " (", job.name(), ")");
}

}  // namespace

uint32_t DrainLeft(const proto::DrainReply& told) {
  return told.role() == proto::WORKER ? told.nodes_left() : told.shards_left();
}

std::string DrainText(const std::string& name, const proto::DrainReply& given) {
  const std::string daemon = Escaped(name);
  const proto::DrainReply told = Printable(given);
  if (!told.draining()) {
    return absl::StrCat(daemon, " is back in service", told.note().empty() ? "" : ": ", told.note(),
                        "\n");
  }
  const char* const what = told.role() == proto::WORKER ? "node" : "shard";
  std::string text =
      told.drained() ? absl::StrCat(daemon, " is drained: nothing is left there\n")
                     : absl::StrCat(daemon, " is being drained: ", Counted(DrainLeft(told), what),
                                    " of ", Counted(told.jobs_size(), "job"), " to go\n");
  for (const proto::DrainedJob& job : told.jobs()) {
    if (job.stays().empty()) continue;
    absl::StrAppend(&text, "  ", NameOf(job), " stays for now: ", job.stays(), "\n");
  }
  if (!told.note().empty()) absl::StrAppend(&text, "  ", told.note(), "\n");
  return text;
}

std::string DrainProgress(const std::string& name, uint32_t all, const proto::DrainReply& given) {
  const std::string daemon = Escaped(name);
  const proto::DrainReply told = Printable(given);
  const bool is_worker = told.role() == proto::WORKER;
  // More may have come from jobs that were just starting.
  const uint32_t left = DrainLeft(told), of = std::max(all, left);
  std::string text =
      absl::StrCat(daemon, ": ", of - left, " of ", Counted(of, is_worker ? "node" : "shard"),
                   is_worker ? " ended" : " moved");
  for (const proto::DrainedJob& job : told.jobs()) {
    if (job.stays().empty()) continue;
    return absl::StrCat(text, "; ", NameOf(job), " stays for now: ", job.stays());
  }
  return text;
}

}  // namespace strata::cli
