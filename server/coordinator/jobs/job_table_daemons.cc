// The part of JobTable that sees to daemons that come and go, and to second copies of shards.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/exchange/own_shards.h"
#include "common/job/exchange/shard_generation.h"
#include "server/coordinator/jobs/job_table.h"
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
    if (node != nullptr && !node->finished) life_.OnNodeBack(holds, node, &entry, now);
    if (server != nullptr) OnServerBack(holds, server, &entry, now);
    if (entry.running() && (node != nullptr || server != nullptr)) TellMovedAgain(name, entry);
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
    OnServerLost(server->daemon,
                 absl::StrFormat("server %s no longer holds the job's weights", server->daemon),
                 entry, now);
  }
}

void JobTable::OnLost(const Membership::Lost& lost, absl::Time now) {
  for (auto& [id, entry] : jobs_) {
    if (!entry.running()) continue;
    if (JobNode* node = entry.NodeOn(lost.name);
        node != nullptr && lost.role == proto::WORKER && !node->finished) {
      replacer_.OnLost({absl::StrCat(node->Describe(), " is lost: ", lost.why)}, node, &entry, now);
    } else if (lost.role == proto::SERVER && entry.ServerOn(lost.name) != nullptr) {
      OnServerLost(lost.name, absl::StrFormat("server %s is lost: %s", lost.name, lost.why), &entry,
                   now);
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
      replacer_.OnLost({absl::StrCat(node.Describe(), " no longer runs the job")}, &node, entry,
                       now);
    } else if (!node.present && is_late) {
      replacer_.OnLost({not_back(node.Describe())}, &node, entry, now);
    }
    if (!entry->running()) return;  // nor does it have those nodes any more
  }
  if (!is_late) return;
  std::vector<std::string> late;
  for (const JobServer& server : entry->servers) {
    if (!server.present) late.push_back(server.daemon);
  }
  for (const std::string& name : late) {
    if (entry->running()) OnServerLost(name, not_back(absl::StrCat("server ", name)), entry, now);
  }
}

// Its daemon has been heard for long enough to have said how the job ended there.
bool JobTable::IsMissing(const JobNode& node) const {
  const Daemon* daemon = membership_->Find(node.daemon);
  return daemon != nullptr && daemon->heard_at - node.missing_since >= options_.missing_grace;
}

// `name` is a copy: the entry that it may come from is erased.
void JobTable::OnServerLost(std::string name, const std::string& reason, JobEntry* entry,
                            absl::Time now) {
  // Before it trains there is nothing to lose, and its shards may not be there yet.
  if (entry->stage() != JobStage::kTraining || entry->job().replicas() == 0) {
    return life_.Fail(reason, entry, now);
  }
  const ServerLoss loss = TakeFrom(name, entry->stored.mutable_record(), &entry->status());
  if (!loss.lost.empty()) {
    return life_.Fail(
        absl::StrFormat("%s; it had the only copy of shard %d", reason, loss.lost[0].value()),
        entry, now);
  }
  std::erase_if(entry->servers, [&](const JobServer& server) { return server.daemon == name; });
  entry->next_backup_at = now + options_.backup_pause;
  announcer_.Warn(absl::StrFormat("job %d (%s): %s; %d of its shards go on with one copy",
                                  entry->id().value(), entry->job().name(), reason,
                                  loss.moved.size()));
  TellMoved(loss.moved, entry, now);
}

void JobTable::TellMoved(const std::vector<ShardId>& shards, JobEntry* entry, absl::Time now) {
  if (shards.empty() || !life_.SaveOrFail(entry, now)) return;
  for (const ShardId shard : shards) {
    const int index = static_cast<int>(shard.value());
    commands_.SendMove(*entry, shard, entry->status().shards(index).daemon());
    for (const JobNode& node : entry->nodes) {
      if (!node.finished) commands_.SendMove(*entry, shard, node.daemon);
    }
  }
  SayUnprotected(entry);
}

void JobTable::SayUnprotected(JobEntry* entry) {
  const size_t shards = Unprotected(entry->stored.record(), entry->status()).size();
  const bool waits = entry->job().while_unprotected() == proto::Job::WAIT;
  announcer_.SetReason(shards == 0
                           ? ""
                           : absl::StrFormat("%d of its shards have one copy%s", shards,
                                             waits ? ": the job waits for second ones"
                                                   : ": the loss of its server ends the job"),
                       entry);
}

void JobTable::AddBackups(JobEntry* entry, absl::Time now) {
  if (entry->stage() != JobStage::kTraining || now < entry->next_backup_at) return;
  proto::JobRecord* const record = entry->stored.mutable_record();
  for (const ShardId shard : Unprotected(*record, entry->status())) {
    const int index = static_cast<int>(shard.value());
    if (!entry->status().shards(index).backup().empty()) continue;  // it is being filled
    entry->next_backup_at = now + options_.backup_pause;
    const auto [place, servers] = placer_.PlaceOneBackup(*entry, shard, now);
    if (!place) continue;
    const ServerShards& server = servers[place->server];
    const auto thread = static_cast<uint32_t>(place->thread);
    AddBackup(shard, server, thread, record, &entry->status());
    if (entry->ServerOn(server.daemon) == nullptr) {
      entry->servers.push_back({.daemon = server.daemon,
                                .job_shards = std::vector<uint32_t>(server.ports.size(), kNoShard),
                                .installed = true});
    }
    if (!life_.SaveOrFail(entry, now)) return;
    commands_.SendInstallBackup(*entry, shard);
  }
}

void JobTable::OnBackupInstalled(const std::string& daemon, const proto::BackupInstalled& message,
                                 absl::Time now) {
  JobEntry* entry = FindRunning(message);
  if (entry == nullptr || !IsBackup(daemon, message, *entry)) return;
  const ShardId shard(message.shard());
  const std::string& primary = entry->status().shards(static_cast<int>(message.shard())).daemon();
  // It waits for its primary, which may fill it.
  if (message.error().empty()) return commands_.SendMove(*entry, shard, primary);
  LoseBackup(primary, shard, message.generation(),
             absl::StrCat("server ", daemon, ": ", message.error()), entry, now);
}

bool JobTable::IsBackup(const std::string& daemon, const proto::BackupInstalled& message,
                        const JobEntry& entry) {
  const int shard = static_cast<int>(message.shard());
  return entry.stage() == JobStage::kTraining && shard < entry.stored.status().shards_size() &&
         entry.stored.status().shards(shard).backup() == daemon;
}

void JobTable::LoseBackup(const std::string& primary, ShardId shard, uint32_t generation,
                          const std::string& why, JobEntry* entry, absl::Time now) {
  const int index = static_cast<int>(shard.value());
  if (index >= entry->status().shards_size()) return;
  const std::string backup = entry->status().shards(index).backup();
  if (!DropBackup(primary, shard, generation, entry->stored.mutable_record(), &entry->status())) {
    return;
  }
  announcer_.Warn(
      absl::StrFormat("job %d (%s): the second copy of shard %d on server %s is dropped: %s",
                      entry->id().value(), entry->job().name(), shard.value(), backup, why));
  entry->next_backup_at = now + options_.backup_pause;
  entry->passed_over[backup] = now + options_.passed_over_for;
  TellMoved({shard}, entry, now);
  if (!entry->running()) return;
  commands_.SendRemoveShard(*entry, shard, backup);
  if (HoldsAny(backup, entry->status())) return;
  std::erase_if(entry->servers, [&](const JobServer& server) { return server.daemon == backup; });
}

void JobTable::TellMovedAgain(const std::string& daemon, const JobEntry& entry) {
  if (entry.stage() != JobStage::kTraining) return;
  const bool is_server =
      std::any_of(entry.servers.begin(), entry.servers.end(),
                  [&](const JobServer& server) { return server.daemon == daemon; });
  for (const ShardId shard : MovedShards(entry.stored.record())) {
    const auto& home = entry.stored.status().shards(static_cast<int>(shard.value()));
    const bool plays_a_node =
        std::any_of(entry.nodes.begin(), entry.nodes.end(),
                    [&](const JobNode& node) { return node.daemon == daemon && !node.finished; });
    if (home.backup() == daemon && home.backup_is_partial()) {
      commands_.SendInstallBackup(entry, shard);
    }
    if (plays_a_node || home.daemon() == daemon) commands_.SendMove(entry, shard, daemon);
    // That it was to forget its copy may be lost.
    const bool has_none = home.daemon() != daemon && home.backup() != daemon;
    if (has_none && is_server) commands_.SendRemoveShard(entry, shard, daemon);
  }
}

void JobTable::OnBackups(const std::string& daemon, const proto::JobCounters& counters,
                         JobEntry* entry, absl::Time now) {
  if (entry->stage() != JobStage::kTraining) return;
  for (const proto::BackupReport& report : counters.backups()) {
    const ShardId shard(report.shard());
    const bool is_partial = report.chunks_missing() > 0;
    const absl::Duration patience = is_partial ? options_.fill_patience : options_.backup_patience;
    if (!report.refusal().empty() || absl::Milliseconds(report.waits_ms()) >= patience) {
      LoseBackup(daemon, shard, report.generation(),
                 report.refusal().empty()
                     ? absl::StrFormat("it was silent for %d ms", report.waits_ms())
                     : report.refusal(),
                 entry, now);
    } else if (!is_partial && CompleteBackup(daemon, shard, report.generation(),
                                             entry->stored.record(), &entry->status())) {
      if (!life_.SaveOrFail(entry, now)) return;
      commands_.SendMove(*entry, shard, daemon);
      SayUnprotected(entry);
    }
    if (!entry->running()) return;
  }
}

void JobTable::OnShardNotMoved(const std::string& daemon, const proto::ShardNotMoved& message,
                               absl::Time now) {
  JobEntry* entry = FindRunning(message);
  if (entry == nullptr || entry->stage() != JobStage::kTraining) return;
  const auto shards = MovedShards(entry->stored.record());
  const ShardId shard(message.shard());
  const bool is_of_now =
      std::find(shards.begin(), shards.end(), shard) != shards.end() &&
      ShardGeneration(entry->stored.record().placement(), shard) == message.generation();
  if (!is_of_now) return;
  life_.Fail(absl::StrFormat("server %s cannot take shard %d over: %s", daemon, message.shard(),
                             message.error()),
             entry, now);
  StartQueued(now);
}

}  // namespace strata::server
