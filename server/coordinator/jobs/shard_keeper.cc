#include "server/coordinator/jobs/shard_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/placement.h"
#include "common/log.h"

namespace strata::server {
namespace {

const proto::JobShardStatus& HomeOf(const JobEntry& entry, ShardId shard) {
  return entry.stored().status().shards(static_cast<int>(shard.value()));
}

// Returns whether the daemon should hold the backup, or next backup, in its message.
bool IsBackup(const std::string& daemon, const proto::BackupInstalled& message,
              const JobEntry& entry) {
  return entry.stage() == JobStage::kTraining &&
         static_cast<int>(message.shard()) < entry.stored().status().shards_size() &&
         HomeOf(entry, ShardId(message.shard())).backup() == daemon;
}
bool HasCopy(const proto::JobShardStatus& home, const std::string& server) {
  return home.daemon() == server || home.backup() == server || home.next_backup() == server;
}
// For a job without backups: a temporary second copy is lost, or can take over.
bool CanContinueWithout(const std::string& server, const proto::JobStatus& status) {
  return std::none_of(
      status.shards().begin(), status.shards().end(), [&](const proto::JobShardStatus& shard) {
        const bool has_other = !shard.backup().empty() && !shard.backup_is_partial();
        return shard.daemon() == server && !has_other;
      });
}
bool IsNext(const std::string& daemon, uint32_t shard, uint32_t generation, const JobEntry& entry) {
  const int shards = entry.stored().status().shards_size();
  if (entry.stage() != JobStage::kTraining || static_cast<int>(shard) >= shards) return false;
  const proto::JobShardStatus& home = HomeOf(entry, ShardId(shard));
  return !home.next_backup().empty() && home.next_generation() == generation &&
         (home.next_backup() == daemon || FillerOf(home) == daemon);
}

}  // namespace

// `name` is a copy, because the entry that it may come from is erased.
void ShardKeeper::OnServerLost(std::string name, const std::string& reason, JobEntry* entry,
                               absl::Time now) {
  // Before training there is nothing to lose, and its shards may not exist yet.
  if (entry->stage() != JobStage::kTraining) {
    return life_->Fail(reason, entry, now, /*is_death=*/true);
  }
  const bool has_copies = entry->job().replicas() > 0;
  if (!has_copies && !CanContinueWithout(name, entry->stored().status())) {
    return life_->Fail(reason, entry, now, /*is_death=*/true);
  }
  const ServerLoss loss =
      TakeFrom(name, entry->mutable_stored()->mutable_record(), &entry->status());
  if (!loss.lost.empty()) {
    return life_->Fail(
        absl::StrFormat("%s; it had the only copy of shard %d", reason, loss.lost[0].value()),
        entry, now);
  }
  entry->RemoveServer(name);
  jobs_[entry->id()].next_backup_at = now + options_.backup_pause;
  if (has_copies) {
    announcer_->Warn(absl::StrFormat("job %d (%s): %s; %d of its shards go on with one copy",
                                     entry->id().value(), entry->job().name(), reason,
                                     loss.moved.size()));
  }
  if (loss.moved.empty() && !life_->SaveOrFail(entry, now)) return;
  TellMoved(loss.moved, entry, now);
  if (entry->running()) Forget(loss.dropped, entry);
}

std::set<std::string> ShardKeeper::PassedOver(JobId job, absl::Time now) const {
  std::set<std::string> servers;
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return servers;
  for (const auto& [server, until] : it->second.passed_over) {
    if (now < until) servers.insert(server);
  }
  return servers;
}

std::string ShardKeeper::WhyStays(const std::string& server, JobId job) const {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return "";
  const auto why = it->second.stays.find(server);
  return why == it->second.stays.end() ? "" : why->second;
}

void ShardKeeper::TellMoved(const std::vector<ShardId>& shards, JobEntry* entry, absl::Time now) {
  if (shards.empty() || !life_->SaveOrFail(entry, now)) return;
  for (const ShardId shard : shards) {
    commands_->SendMove(*entry, shard, HomeOf(*entry, shard).daemon());
    for (const JobNode& node : entry->nodes()) {
      if (!node.finished()) commands_->SendMove(*entry, shard, node.daemon());
    }
  }
  SayUnprotected(entry);
}

void ShardKeeper::Forget(const std::vector<DroppedCopy>& copies, JobEntry* entry) {
  for (const DroppedCopy& copy : copies) {
    commands_->SendRemoveShard(*entry, copy);
    const proto::JobShardStatus& home = HomeOf(*entry, copy.shard);
    // These may still fill it; a newer generation tells the others the same.
    if (home.next_backup().empty() && home.next_generation() + 1 == copy.generation) {
      for (const std::string& filler : {home.daemon(), home.backup()}) {
        if (!filler.empty()) commands_->SendFillNext(*entry, copy.shard, filler);
      }
    }
    if (!HoldsAny(copy.server, entry->status())) LetGo(copy.server, entry);
  }
}

// `server` is a copy, because the entry that it may come from is erased.
void ShardKeeper::LetGo(std::string server, JobEntry* entry) {
  if (!entry->RemoveServer(server)) return;
  // Its shards without chunks have no owner.
  bool has_empty = false;
  for (proto::JobShardStatus& shard : *entry->status().mutable_shards()) {
    if (shard.daemon() != server) continue;
    shard.clear_daemon();
    has_empty = true;
  }
  if (has_empty) commands_->SendRemove(server, entry->id());
}

void ShardKeeper::SayUnprotected(JobEntry* entry) {
  if (entry->job().replicas() == 0) return;
  const size_t shards = Unprotected(entry->stored().record(), entry->status()).size();
  const bool waits = entry->job().while_unprotected() == proto::Job::WAIT;
  announcer_->SetReason(shards == 0
                            ? ""
                            : absl::StrFormat("%d of its shards have one copy%s", shards,
                                              waits ? ": the job waits for second ones"
                                                    : ": the loss of its server ends the job"),
                        entry);
}

void ShardKeeper::AddServer(const ServerShards& server, JobEntry* entry) {
  if (entry->ServerOn(server.daemon) != nullptr) return;
  entry->AddServer({.daemon = server.daemon,
                    .job_shards = std::vector<uint32_t>(server.ports.size(), kNoShard),
                    .installed = true});
}

void ShardKeeper::AddBackups(JobEntry* entry, absl::Time now) {
  if (entry->stage() != JobStage::kTraining || now < jobs_[entry->id()].next_backup_at) return;
  proto::JobRecord* const record = entry->mutable_stored()->mutable_record();
  for (const ShardId shard : Unprotected(*record, entry->status())) {
    if (!HomeOf(*entry, shard).backup().empty()) continue;  // it is being filled
    jobs_[entry->id()].next_backup_at = now + options_.backup_pause;
    const JobPlacer::NewBackup made = placer_->PlaceOneBackup(
        *entry, shard, HomeOf(*entry, shard).daemon(), PassedOver(entry->id(), now), now);
    if (!made.place) continue;
    const ServerShards& server = made.servers[made.place->server];
    AddBackup(shard, server, static_cast<uint32_t>(made.place->thread), record, &entry->status());
    AddServer(server, entry);
    if (!life_->SaveOrFail(entry, now)) return;
    commands_->SendInstallBackup(*entry, shard);
  }
}

void ShardKeeper::OnBackupInstalled(const std::string& daemon,
                                    const proto::BackupInstalled& message, JobEntry* entry,
                                    absl::Time now) {
  const ShardId shard(message.shard());
  const std::string why = absl::StrCat("server ", daemon, ": ", message.error());
  if (IsNext(daemon, message.shard(), message.generation(), *entry)) {
    if (!message.error().empty()) return LoseNext(shard, why, entry, now);
    return commands_->SendFillNext(*entry, shard, FillerOf(HomeOf(*entry, shard)));
  }
  if (!IsBackup(daemon, message, *entry)) return;
  const std::string& primary = HomeOf(*entry, shard).daemon();
  // It waits for its primary, which may fill it.
  if (message.error().empty()) return commands_->SendMove(*entry, shard, primary);
  LoseBackup(primary, shard, message.generation(), why, entry, now);
}

void ShardKeeper::LoseBackup(const std::string& primary, ShardId shard, uint32_t generation,
                             const std::string& why, JobEntry* entry, absl::Time now) {
  const std::vector<DroppedCopy> dropped = DropBackup(
      primary, shard, generation, entry->mutable_stored()->mutable_record(), &entry->status());
  if (dropped.empty()) return;
  const std::string& backup = dropped[0].server;
  announcer_->Warn(
      absl::StrFormat("job %d (%s): the second copy of shard %d on server %s is dropped: %s",
                      entry->id().value(), entry->job().name(), shard.value(), backup, why));
  jobs_[entry->id()].next_backup_at = now + options_.backup_pause;
  jobs_[entry->id()].passed_over[backup] = now + options_.passed_over_for;
  TellMoved({shard}, entry, now);
  if (entry->running()) Forget(dropped, entry);
}

void ShardKeeper::TellMovedAgain(const std::string& daemon, const JobEntry& entry) {
  if (entry.stage() != JobStage::kTraining) return;
  const bool plays_a_node =
      std::any_of(entry.nodes().begin(), entry.nodes().end(),
                  [&](const JobNode& node) { return node.daemon() == daemon && !node.finished(); });
  const auto is_it = [&](const JobServer& server) { return server.daemon == daemon; };
  const bool is_server = absl::c_any_of(entry.servers(), is_it);
  const proto::Placement& placement = entry.stored().record().placement();
  for (const ShardId shard : MovedShards(entry.stored().record())) {
    const proto::JobShardStatus& home = HomeOf(entry, shard);
    if (home.backup() == daemon && home.backup_is_partial()) {
      commands_->SendInstallBackup(entry, shard);
    }
    if (plays_a_node || home.daemon() == daemon) commands_->SendMove(entry, shard, daemon);
  }
  uint32_t shard = 0;
  for (const proto::JobShardStatus& home : entry.stored().status().shards()) {
    const ShardId id(shard++);
    if (home.next_backup() == daemon) commands_->SendInstallNext(entry, id);
    const bool fills = !home.next_backup().empty() && FillerOf(home) == daemon;
    if (fills) commands_->SendFillNext(entry, id, daemon);
    const uint32_t below = DroppedBelow(id, entry.stored().record(), entry.stored().status());
    // The command to drop its copy may have been lost.
    if (is_server && !HasCopy(home, daemon) && below > placement.generation()) {
      commands_->SendRemoveShard(entry, {id, daemon, below});
    }
  }
}

void ShardKeeper::OnBackups(const std::string& daemon, const proto::JobCounters& counters,
                            JobEntry* entry, absl::Time now) {
  if (entry->stage() != JobStage::kTraining) return;
  for (const proto::BackupReport& report : counters.backups()) {
    const ShardId shard(report.shard());
    const bool is_partial = report.chunks_missing() > 0;
    const absl::Duration patience = is_partial ? options_.fill_patience : options_.backup_patience;
    if (report.is_next()) {
      OnNextReport(daemon, report, entry, now);
    } else if (!report.refusal().empty() || absl::Milliseconds(report.waits_ms()) >= patience) {
      LoseBackup(daemon, shard, report.generation(),
                 report.refusal().empty()
                     ? absl::StrFormat("it was silent for %d ms", report.waits_ms())
                     : report.refusal(),
                 entry, now);
    } else if (!is_partial && CompleteBackup(daemon, shard, report.generation(),
                                             entry->stored().record(), &entry->status())) {
      if (!life_->SaveOrFail(entry, now)) return;
      commands_->SendMove(*entry, shard, daemon);
      SayUnprotected(entry);
    }
    if (!entry->running()) return;
  }
}

void ShardKeeper::OnShardNotMoved(const std::string& daemon, const proto::ShardNotMoved& message,
                                  JobEntry* entry, absl::Time now) {
  if (entry->stage() != JobStage::kTraining) return;
  const ShardId shard(message.shard());
  if (IsNext(daemon, message.shard(), message.generation(), *entry)) {
    return LoseNext(shard, absl::StrCat("server ", daemon, ": ", message.error()), entry, now);
  }
  const auto shards = MovedShards(entry->stored().record());
  const bool is_of_now =
      std::find(shards.begin(), shards.end(), shard) != shards.end() &&
      ShardGeneration(entry->stored().record().placement(), shard) == message.generation();
  if (!is_of_now) return;
  life_->Fail(absl::StrFormat("server %s cannot take shard %d over: %s", daemon, message.shard(),
                              message.error()),
              entry, now);
}

// ---- draining servers ----

bool ShardKeeper::IsConnected(const std::string& server) const {
  const Daemon* const found = membership_->Find(server);
  return found != nullptr && found->session != SessionId();
}

void ShardKeeper::OnNextReport(const std::string& daemon, const proto::BackupReport& report,
                               JobEntry* entry, absl::Time now) {
  const ShardId shard(report.shard());
  if (!IsNext(daemon, report.shard(), report.generation(), *entry)) {
    // It has not heard yet that it must fill none.
    return commands_->SendFillNothing(*entry, report, daemon);
  }
  const bool is_partial = report.chunks_missing() > 0;
  const absl::Duration patience = is_partial ? options_.fill_patience : options_.backup_patience;
  if (!report.refusal().empty()) return LoseNext(shard, report.refusal(), entry, now);
  if (absl::Milliseconds(report.waits_ms()) >= patience) {
    return LoseNext(shard, absl::StrFormat("it was silent for %d ms", report.waits_ms()), entry,
                    now);
  }
  const proto::JobShardStatus& home = HomeOf(*entry, shard);
  // The next primary must learn it at once: the nodes wait for it.
  const std::string& primary = home.replaces_primary() ? home.backup() : home.daemon();
  if (is_partial || !IsConnected(primary)) return;
  HasLeft(TakeNext(shard, entry->mutable_stored()->mutable_record(), &entry->status()), entry, now);
}

void ShardKeeper::LoseNext(ShardId shard, const std::string& why, JobEntry* entry, absl::Time now) {
  const std::string next = HomeOf(*entry, shard).next_backup();
  announcer_->Warn(absl::StrFormat(
      "job %d (%s): the copy of shard %d that was to lie on server %s next is dropped: %s",
      entry->id().value(), entry->job().name(), shard.value(), next, why));
  jobs_[entry->id()].next_backup_at = now + options_.backup_pause;
  jobs_[entry->id()].passed_over[next] = now + options_.passed_over_for;
  DropNext(shard, entry, now);
}

void ShardKeeper::DropNext(ShardId shard, JobEntry* entry, absl::Time now) {
  const DroppedCopy dropped = server::DropNext(shard, &entry->status());
  if (life_->SaveOrFail(entry, now)) Forget({dropped}, entry);
}

void ShardKeeper::HasLeft(const DroppedCopy& copy, JobEntry* entry, absl::Time now) {
  LogInfo("job %d (%s): shard %d has left server %s, and lies on server %s", entry->id().value(),
          entry->job().name(), copy.shard.value(), copy.server,
          HomeOf(*entry, copy.shard).daemon());
  TellMoved({copy.shard}, entry, now);
  if (!entry->running()) return;
  Forget({copy}, entry);
  announcer_->TellStatus(entry);
}

void ShardKeeper::LeaveServers(std::map<JobId, JobEntry>* jobs, absl::Time now) {
  FillsOfServers fills;
  for (const auto& [id, entry] : *jobs) {
    if (entry.stage() == JobStage::kTraining) CountFills(entry.stored().status(), &fills);
  }
  for (auto& [id, entry] : *jobs) {
    jobs_[id].stays.clear();
    if (entry.stage() == JobStage::kTraining) LeaveServersOf(&entry, &fills, now);
  }
}

void ShardKeeper::LeaveServersOf(JobEntry* entry, FillsOfServers* fills, absl::Time now) {
  const auto leaves = [this](const std::string& server) { return membership_->IsDraining(server); };
  if (entry->stored().record().layout().tables_size() > 0) {
    for (const JobServer& server : entry->servers()) {
      if (!leaves(server.daemon)) continue;
      jobs_[entry->id()].stays[server.daemon] = "it has rows, which do not move as yet";
    }
    return;
  }
  for (int i = 0; i < entry->status().shards_size() && entry->running(); ++i) {
    const proto::JobShardStatus& shard = entry->status().shards(i);
    if (shard.chunks() == 0) continue;
    const ShardStep step = NextStep(shard, entry->job().replicas(), leaves);
    if (step != ShardStep::kNone) {
      Do(step, ShardId(static_cast<uint32_t>(i)), entry, fills, now);
    } else if (shard.backup().empty() && leaves(shard.daemon())) {
      jobs_[entry->id()].stays[shard.daemon()] =
          "its second copies come first, which have no place now";
    }
  }
  const auto is_empty = [&](const JobServer& server) {
    return leaves(server.daemon) && !HoldsAny(server.daemon, entry->status());
  };
  auto empty = std::find_if(entry->servers().begin(), entry->servers().end(), is_empty);
  while (entry->running() && empty != entry->servers().end()) {
    LetGo(empty->daemon, entry);
    announcer_->Save(*entry).IgnoreError();  // repeated
    empty = std::find_if(entry->servers().begin(), entry->servers().end(), is_empty);
  }
}

void ShardKeeper::Do(ShardStep step, ShardId shard, JobEntry* entry, FillsOfServers* fills,
                     absl::Time now) {
  proto::JobRecord* const record = entry->mutable_stored()->mutable_record();
  const proto::JobShardStatus& home = HomeOf(*entry, shard);
  switch (step) {
    case ShardStep::kNone:
      return;
    case ShardStep::kPromote:
      if (!IsConnected(home.backup())) return;
      return HasLeft(PromoteBackup(shard, record, &entry->status()), entry, now);
    case ShardStep::kDropBackup: {
      const std::vector<DroppedCopy> dropped =
          DropBackup(home.daemon(), shard, ShardGeneration(record->placement(), shard), record,
                     &entry->status());
      TellMoved({shard}, entry, now);
      if (entry->running()) Forget(dropped, entry);
      return;
    }
    case ShardStep::kDropNext:
      return DropNext(shard, entry, now);
    case ShardStep::kAddBackup:
    case ShardStep::kReplaceBackup:
    case ShardStep::kReplacePrimary:
      return Fill(step, shard, entry, fills, now);
  }
}

void ShardKeeper::Fill(ShardStep step, ShardId shard, JobEntry* entry, FillsOfServers* fills,
                       absl::Time now) {
  const proto::JobShardStatus& home = HomeOf(*entry, shard);
  const std::string filler = step == ShardStep::kReplacePrimary ? home.backup() : home.daemon();
  const std::string leaves = step == ShardStep::kReplaceBackup ? home.backup() : home.daemon();
  if (!IsConnected(filler)) {
    jobs_[entry->id()].stays[leaves] = absl::StrCat("server ", filler, " is not there now");
    return;
  }
  if (now < jobs_[entry->id()].next_backup_at || (*fills)[filler] >= options_.fills_per_server)
    return;
  // The server that fills the other copy stays, unless it has the only copy.
  const std::string beside = step == ShardStep::kAddBackup ? "" : filler;
  const JobPlacer::NewBackup made =
      placer_->PlaceOneBackup(*entry, shard, beside, PassedOver(entry->id(), now), now);
  if (!made.place) {
    jobs_[entry->id()].stays[leaves] = made.why;
    return;
  }
  const ServerShards& server = made.servers[made.place->server];
  if ((*fills)[server.daemon] >= options_.fills_per_server) return;
  proto::JobRecord* const record = entry->mutable_stored()->mutable_record();
  const auto thread = static_cast<uint32_t>(made.place->thread);
  if (step == ShardStep::kAddBackup) {
    AddBackup(shard, server, thread, record, &entry->status());
  } else {
    AddNext(shard, server, thread, step == ShardStep::kReplacePrimary, record, &entry->status());
  }
  ++(*fills)[filler];
  ++(*fills)[server.daemon];
  AddServer(server, entry);
  if (!life_->SaveOrFail(entry, now)) return;
  if (step == ShardStep::kAddBackup) return commands_->SendInstallBackup(*entry, shard);
  commands_->SendInstallNext(*entry, shard);
}

}  // namespace strata::server
