#include "server/coordinator/logs/log_places.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::server {

LogPlaces::LogPlaces(const proto::JobStatus& job, const proto::ReadLogs& wanted) : wanted_(wanted) {
  News(job);
}

bool LogPlaces::IsWanted(const proto::JobNodeStatus& node) const {
  if (wanted_.nodes().empty() && wanted_.ranks().empty()) return true;
  const auto is_it = [&](uint32_t number) { return number == node.node(); };
  if (std::any_of(wanted_.nodes().begin(), wanted_.nodes().end(), is_it)) return true;
  return std::any_of(wanted_.ranks().begin(), wanted_.ranks().end(), [&](uint32_t rank) {
    return rank >= node.first_rank() && rank - node.first_rank() < node.ranks();
  });
}

std::vector<std::string> LogPlaces::News(const proto::JobStatus& job) {
  std::vector<std::string> news;
  for (const proto::JobNodeStatus& node : job.nodes()) {
    // A job that waits to go on has none.
    if (node.daemon().empty() || !IsWanted(node)) continue;
    const auto [at, is_new] = workers_.try_emplace(node.node(), node.daemon());
    if (!is_new && at->second == node.daemon()) continue;
    at->second = node.daemon();
    news.push_back(absl::StrCat("node ", node.node(), " is now on worker ", node.daemon(),
                                ", whose logs are not followed here: ask again for them"));
  }
  return news;
}

}  // namespace strata::server
