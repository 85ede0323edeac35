// The part of JobTable that sees to daemons that come and go.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/coordinator/jobs/job_table.h"

namespace strata::server {

void JobTable::OnJoined(const Daemon& daemon, bool returned, absl::Time now) {
  const std::string& name = daemon.registration.name();
  const auto& held = daemon.registration.running_jobs();
  const bool worker = daemon.registration.role() == proto::WORKER;
  if (worker && !returned) queue_.OnWorkerJoined(now);
  StopUnwanted(daemon);  // first, to make room for what it is to begin
  for (auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    const bool holds = std::find(held.begin(), held.end(), id.value()) != held.end();
    JobNode* node = worker ? entry.NodeOn(name) : nullptr;
    JobServer* server = worker ? nullptr : entry.ServerOn(name);
    if (node != nullptr && !node->finished) life_.OnNodeBack(holds, node, &entry, now);
    if (server != nullptr) OnServerBack(holds, server, &entry, now);
  }
  StartQueued(now);
}

void JobTable::StopUnwanted(const Daemon& daemon) {
  const std::string& name = daemon.registration.name();
  const bool worker = daemon.registration.role() == proto::WORKER;
  for (uint32_t job : daemon.registration.running_jobs()) {
    JobEntry* entry = FindRunning(job);
    const bool wanted = entry != nullptr && (worker ? entry->NodeOn(name) != nullptr
                                                    : entry->ServerOn(name) != nullptr);
    if (wanted) continue;
    if (worker) {
      commands_.SendStop(name, JobId(job), "the job has ended");
    } else {
      commands_.SendRemove(name, JobId(job));
    }
  }
}

void JobTable::OnServerBack(bool holds, JobServer* server, JobEntry* entry, absl::Time now) {
  server->present = true;
  if (!server->installed) {
    commands_.SendInstall(*entry, *server);  // one of the two, or the answer, may be lost
  } else if (!holds) {
    life_.Fail(absl::StrFormat("server %s no longer holds the job's weights", server->daemon),
               entry, now);
  }
}

void JobTable::OnLost(const Membership::Lost& lost, absl::Time now) {
  for (auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    if (const JobNode* node = entry.NodeOn(lost.name);
        node != nullptr && lost.role == proto::WORKER && !node->finished) {
      life_.Fail(absl::StrCat(node->Describe(), " is lost: ", lost.why), &entry, now);
    } else if (lost.role == proto::SERVER && entry.ServerOn(lost.name) != nullptr) {
      life_.Fail(absl::StrFormat("server %s is lost: %s", lost.name, lost.why), &entry, now);
    }
  }
  StartQueued(now);
}

void JobTable::FailIfGone(JobEntry* entry, absl::Time now) {
  if (!entry->running()) return;
  const bool is_late = now - started_at_ >= options_.restart_patience;
  const auto not_back = [&](const std::string& who) {
    return absl::StrCat(who, " did not come back within ",
                        absl::FormatDuration(options_.restart_patience),
                        " of the coordinator's restart");
  };
  for (const JobNode& node : entry->nodes) {
    if (node.finished) continue;
    if (IsMissing(node)) {
      return life_.Fail(absl::StrCat(node.Describe(), " no longer runs the job"), entry, now);
    }
    if (!node.present && is_late) return life_.Fail(not_back(node.Describe()), entry, now);
  }
  for (const JobServer& server : entry->servers) {
    if (server.present || !is_late) continue;
    return life_.Fail(not_back(absl::StrCat("server ", server.daemon)), entry, now);
  }
}

// Its daemon has been heard for long enough to have said how the job ended there.
bool JobTable::IsMissing(const JobNode& node) const {
  const Daemon* daemon = membership_->Find(node.daemon);
  return daemon != nullptr && daemon->heard_at - node.missing_since >= options_.missing_grace;
}

}  // namespace strata::server
