// The part of JobTable that sees to daemons that come and go, or are drained.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/coordinator/jobs/table/job_table.h"
#include "server/coordinator/placement/shard_homes.h"

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
    if (!returned) entry.passed_over.erase(name);  // a new process
    if (node != nullptr && !node->finished) {
      life_.OnNodeBack(holds, node, &entry, now);
      views_.TellAgain(*node, entry);
      rings_.TellAgain(*node, &entry, now);
    }
    if (server != nullptr) OnServerBack(holds, server, &entry, now);
    if (entry.running() && (node != nullptr || server != nullptr)) {
      keeper_.TellMovedAgain(name, entry);
    }
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
    keeper_.OnServerLost(
        server->daemon,
        absl::StrFormat("server %s no longer holds the job's weights", server->daemon), entry, now);
  }
}

void JobTable::OnLost(const Membership::Lost& lost, absl::Time now) {
  for (auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    if (JobNode* node = entry.NodeOn(lost.name);
        node != nullptr && lost.role == proto::WORKER && !node->finished) {
      LoseNode({absl::StrCat(node->Describe(), " is lost: ", lost.why)}, node, &entry, now);
    } else if (lost.role == proto::SERVER && entry.ServerOn(lost.name) != nullptr) {
      keeper_.OnServerLost(lost.name, absl::StrFormat("server %s is lost: %s", lost.name, lost.why),
                           &entry, now);
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
  for (JobNode& node : entry->nodes) {
    if (node.finished) continue;
    if (IsMissing(node)) {
      LoseNode({absl::StrCat(node.Describe(), " no longer runs the job")}, &node, entry, now);
    } else if (!node.present && is_late) {
      LoseNode({not_back(node.Describe())}, &node, entry, now);
    }
    if (!entry->running()) return;  // nor does it have those nodes any more
  }
  if (!is_late) return;
  std::vector<std::string> late;
  for (const JobServer& server : entry->servers) {
    if (!server.present) late.push_back(server.daemon);
  }
  for (const std::string& name : late) {
    if (entry->running())
      keeper_.OnServerLost(name, not_back(absl::StrCat("server ", name)), entry, now);
  }
}

// Its daemon has been heard for long enough to have said how the job ended there.
bool JobTable::IsMissing(const JobNode& node) const {
  const Daemon* daemon = membership_->Find(node.daemon);
  return daemon != nullptr && daemon->heard_at - node.missing_since >= options_.missing_grace;
}

void JobTable::OnBackupInstalled(const std::string& daemon, const proto::BackupInstalled& message,
                                 absl::Time now) {
  JobEntry* entry = FindRunning(message);
  if (entry != nullptr) keeper_.OnBackupInstalled(daemon, message, entry, now);
}

void JobTable::OnShardNotMoved(const std::string& daemon, const proto::ShardNotMoved& message,
                               absl::Time now) {
  JobEntry* entry = FindRunning(message);
  if (entry == nullptr) return;
  keeper_.OnShardNotMoved(daemon, message, entry, now);
  StartQueued(now);
}

void JobTable::LeaveDrained(absl::Time now) {
  keeper_.LeaveServers(&jobs_, now);
  for (auto& [id, entry] : jobs_) views_.Step(&entry, now);
}

void JobTable::TellDrain(const std::string& daemon, proto::DrainReply* reply) const {
  for (const auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    const uint32_t copies = CountCopies(daemon, entry.stored.status());
    const auto nodes =
        std::count_if(entry.nodes.begin(), entry.nodes.end(),
                      [&](const JobNode& node) { return node.daemon == daemon && !node.finished; });
    if (copies == 0 && nodes == 0) continue;
    reply->set_shards_left(reply->shards_left() + copies);
    reply->set_nodes_left(reply->nodes_left() + static_cast<uint32_t>(nodes));
    proto::DrainedJob* const job = reply->add_jobs();
    job->set_job_id(id.value());
    job->set_name(entry.job().name());
    for (const auto* const why : {&entry.stays, &entry.keeps}) {
      if (const auto stays = why->find(daemon); stays != why->end()) job->set_stays(stays->second);
    }
  }
}

}  // namespace strata::server
