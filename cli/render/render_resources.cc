#include "cli/render/render_resources.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/render/table.h"
#include "common/limits/memory_ledger.h"

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

}  // namespace strata::cli
