#include "server/coordinator/logs/log_shares.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/version.h"

namespace strata::server {
namespace {

LogReadings::Share ShareOf(const LogScene& scene, const std::string& worker,
                           const proto::LogLinesWanted& lines) {
  LogReadings::Share share{.worker = worker, .where = absl::StrCat("worker ", worker)};
  share.begin.set_job_id(scene.job.job_id());
  share.begin.set_run_dir(scene.job.run_dir());
  *share.begin.mutable_lines() = lines;
  for (const proto::DaemonStatus& daemon : scene.daemons.daemons()) {
    if (daemon.role() != proto::WORKER || daemon.name() != worker) continue;
    absl::StrAppend(&share.where, " (", daemon.address(), ")");
    if (!daemon.alive() || daemon.version() == STRATA_VERSION) break;
    const std::string version =
        daemon.version().empty() ? "before " STRATA_VERSION : daemon.version();
    share.cannot =
        absl::StrCat("worker ", worker, " is of version ", version, " and offers no logs now");
  }
  return share;
}

absl::Status NotThere(const proto::JobStatus& job, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("job ", job.job_id(), " has no ", what));
}

}  // namespace

absl::StatusOr<std::vector<LogReadings::Share>> SharesOf(const LogScene& scene,
                                                         const proto::ReadLogs& wanted) {
  std::set<uint32_t> ranks(wanted.ranks().begin(), wanted.ranks().end());
  std::set<uint32_t> nodes(wanted.nodes().begin(), wanted.nodes().end());
  if (wanted.aggregators() && !ranks.empty()) {
    return absl::InvalidArgumentError("ranks and aggregators: ask for one of the two");
  }
  const bool all = ranks.empty() && nodes.empty();
  std::map<std::string, LogReadings::Share> by_worker;
  bool has_begun = false;
  for (const proto::JobNodeStatus& node : scene.job.nodes()) {
    const bool whole = nodes.erase(node.node()) > 0 || all;
    std::vector<proto::LogProcess> processes;
    if (wanted.aggregators() && whole) {
      processes.emplace_back().set_aggregator_node(node.node());
    }
    for (uint32_t i = 0; i < node.ranks() && !wanted.aggregators(); ++i) {
      const bool one = ranks.erase(node.first_rank() + i) > 0;
      if (one || whole) processes.emplace_back().set_rank(node.first_rank() + i);
    }
    has_begun = has_begun || !node.daemon().empty();
    if (processes.empty()) continue;
    auto at = by_worker.find(node.daemon());
    if (at == by_worker.end()) {
      at = by_worker.emplace(node.daemon(), ShareOf(scene, node.daemon(), wanted.lines())).first;
    }
    if (node.daemon().empty()) at->second.cannot = "its node is on no worker at present";
    for (proto::LogProcess& process : processes) {
      *at->second.begin.add_processes() = std::move(process);
    }
  }
  if (!has_begun && scene.job.restarts_size() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", scene.job.job_id(),
                     " waits to go on: until then its logs are only on the hosts where it ran"));
  }
  if (!has_begun) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", scene.job.job_id(), " has not begun, and has no logs yet"));
  }
  if (!ranks.empty()) return NotThere(scene.job, absl::StrCat("rank ", *ranks.begin()));
  if (!nodes.empty()) return NotThere(scene.job, absl::StrCat("node ", *nodes.begin()));
  std::vector<LogReadings::Share> shares;
  for (auto& [worker, share] : by_worker) shares.push_back(std::move(share));
  return shares;
}

}  // namespace strata::server
