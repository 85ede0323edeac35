#include "server/daemon/server_daemon_core.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "common/counted.h"
#include "common/job/placement.h"
#include "common/log.h"

namespace strata::server {

namespace {

// The answer to a MoveShard or FillNext.
template <typename Asked>
proto::DaemonMessage NotMoved(const Asked& asked, const absl::Status& why) {
  proto::DaemonMessage reply;
  proto::ShardNotMoved* const not_moved = reply.mutable_shard_not_moved();
  not_moved->set_job_id(asked.job_id());
  not_moved->set_attempt(asked.attempt());
  not_moved->set_shard(asked.shard());
  not_moved->set_generation(asked.generation());
  not_moved->set_error(std::string(why.message()));
  return reply;
}

}  // namespace

std::vector<OwnCopy> CopiesOf(const proto::InstallJob& install) {
  std::vector<OwnCopy> copies;
  for (int thread = 0; thread < install.own_shards_size(); ++thread) {
    const uint32_t shard = install.own_shards(thread);
    if (shard == kNoShard) continue;
    copies.push_back({static_cast<size_t>(thread), ShardId(shard), ShardCopy::kPrimary});
  }
  for (const proto::OwnBackup& backup : install.own_backups()) {
    copies.push_back({backup.thread(), ShardId(backup.shard()), ShardCopy::kBackup});
  }
  return copies;
}

proto::BackupReport ReportOf(const BackupState& state, absl::Time now) {
  proto::BackupReport report;
  report.set_shard(state.shard.value());
  report.set_generation(state.generation);
  if (state.waits_since < absl::InfiniteFuture()) {
    const int64_t waits = absl::ToInt64Milliseconds(now - state.waits_since);
    report.set_waits_ms(static_cast<uint32_t>(std::clamp<int64_t>(waits, 1, UINT32_MAX)));
  }
  report.set_refusal(std::string(state.refusal.message()));
  report.set_chunks_missing(static_cast<uint32_t>(state.chunks_missing));
  report.set_is_next(state.is_next);
  return report;
}

void ServerDaemonCore::OnMessage(const proto::CoordinatorMessage& message) {
  if (message.has_install_job()) {
    Install(message.install_job());
  } else if (message.has_remove_job()) {
    Remove(JobId(message.remove_job().job_id()));
  } else if (message.has_move_shard()) {
    MoveShard(message.move_shard());
  } else if (message.has_install_backup()) {
    InstallBackup(message.install_backup());
  } else if (message.has_remove_shard()) {
    RemoveShard(message.remove_shard());
  } else if (message.has_fill_next()) {
    FillNext(message.fill_next());
  } else if (message.has_change_view()) {
    ChangeView(message.change_view());
  }
}

std::vector<uint32_t> ServerDaemonCore::RunningJobs() const {
  std::vector<uint32_t> running;
  for (const auto& [job, attempt] : attempts_) running.push_back(job.value());
  return running;
}

bool ServerDaemonCore::IsHere(uint32_t job, uint32_t attempt) const {
  const auto here = attempts_.find(JobId(job));
  return here != attempts_.end() && here->second == attempt;
}

bool ServerDaemonCore::MakeWay(const proto::JobRecord& record) {
  const auto here = attempts_.find(JobId(record.job_id()));
  if (here == attempts_.end()) return true;
  if (here->second > record.attempt()) return false;
  // The command to remove it was lost.
  if (here->second < record.attempt()) Remove(JobId(record.job_id()));
  return true;
}

// ---- jobs ----

void ServerDaemonCore::Install(const proto::InstallJob& install) {
  const proto::JobRecord& record = install.record();
  if (!MakeWay(record)) return;
  absl::Status status = Admit(install);
  for (const OwnCopy& own : CopiesOf(install)) {
    if (status.ok()) status = actions_->BeginInstall(own.thread, record, own.shard, own.copy);
  }
  if (status.ok() && record.has_resume()) return actions_->Load(install);
  if (status.ok()) status = EndInstall(install);
  // An error of this server's placement does not mean that the checkpoint is damaged.
  if (!status.ok()) status = absl::FailedPreconditionError(status.message());
  TellInstalled(install, status);
  if (!status.ok()) Remove(JobId(record.job_id()));
}

absl::Status ServerDaemonCore::Admit(const proto::InstallJob& install) {
  if (static_cast<size_t>(install.own_shards_size()) != threads_) {
    return absl::InvalidArgumentError(absl::StrCat("placement names ", install.own_shards_size(),
                                                   " shards of this server, it has ", threads_));
  }
  for (const proto::OwnBackup& backup : install.own_backups()) {
    if (backup.thread() < threads_) continue;
    return absl::InvalidArgumentError(absl::StrCat("placement names a second copy on shard ",
                                                   backup.thread(), " of this server, it has ",
                                                   threads_));
  }
  absl::Status admitted = admission_.Admit(install);
  if (!admitted.ok()) return admitted;
  attempts_[JobId(install.record().job_id())] = install.record().attempt();
  return absl::OkStatus();
}

absl::Status ServerDaemonCore::EndInstall(const proto::InstallJob& install) {
  std::set<size_t> threads;
  for (const OwnCopy& own : CopiesOf(install)) threads.insert(own.thread);
  for (const size_t thread : threads) {
    absl::Status ended = actions_->EndInstall(thread, JobId(install.record().job_id()));
    if (!ended.ok()) return ended;
  }
  LogInfo("job %u: installed on %s", install.record().job_id(), Counted(threads_, "shard"));
  return absl::OkStatus();
}

void ServerDaemonCore::TellInstalled(const proto::InstallJob& install, const absl::Status& status) {
  proto::DaemonMessage reply;
  proto::JobInstalled* const installed = reply.mutable_job_installed();
  installed->set_job_id(install.record().job_id());
  installed->set_attempt(install.record().attempt());
  if (!status.ok()) installed->set_error(std::string(status.message()));
  installed->set_is_damaged(install.record().has_resume() && IsDamage(status));
  actions_->Send(std::move(reply));
}

void ServerDaemonCore::ChangeView(const proto::ViewChange& change) {
  const auto here = attempts_.find(JobId(change.job_id()));
  if (here != attempts_.end() && here->second != change.attempt()) return;
  absl::Status changed = absl::NotFoundError("the job is not here");
  for (size_t thread = 0; thread < threads_; ++thread) {
    const absl::Status on_thread = actions_->ChangeView(thread, change);
    if (absl::IsNotFound(on_thread)) continue;
    changed = on_thread;
    if (!changed.ok()) break;
  }
  if (changed.ok()) {
    LogInfo("job %u: other nodes take part from clock %u on (change %u)", change.job_id(),
            change.at_clock(), change.number());
  }
  proto::DaemonMessage reply;
  proto::ViewInstalled* const installed = reply.mutable_view_installed();
  installed->set_job_id(change.job_id());
  installed->set_attempt(change.attempt());
  installed->set_number(change.number());
  if (!changed.ok()) installed->set_error(std::string(changed.message()));
  actions_->Send(std::move(reply));
}

void ServerDaemonCore::Remove(JobId job) {
  if (attempts_.erase(job) == 0) return;
  // The job's last counters: they are lost when it is removed.
  proto::DaemonMessage counts;
  *counts.mutable_heartbeat() = actions_->MakeHeartbeat();
  admission_.Release(job);
  actions_->Send(std::move(counts));
  actions_->RemoveJob(job);
  LogInfo("job %u: removed", job.value());
}

// ---- copies of shards ----

absl::Status ServerDaemonCore::AskHolder(absl::FunctionRef<absl::Status(size_t thread)> ask) {
  absl::Status done = absl::NotFoundError("no thread here holds the shard");
  for (size_t thread = 0; thread < threads_ && absl::IsNotFound(done); ++thread) {
    done = ask(thread);
  }
  return done;
}

void ServerDaemonCore::MoveShard(const proto::MoveShard& move) {
  if (!IsHere(move.job_id(), move.attempt())) return;
  const absl::Status moved =
      AskHolder([&](size_t thread) { return actions_->MoveShard(thread, move); });
  if (!moved.ok()) return actions_->Send(NotMoved(move, moved));
  const std::string backup =
      move.backup_endpoint().empty() ? "no second copy"
      : move.backup_is_whole()       ? absl::StrCat("its second copy at ", move.backup_endpoint())
                               : absl::StrCat("a second copy to fill at ", move.backup_endpoint());
  LogInfo("job %u: shard %u lies here in generation %u, with %s", move.job_id(), move.shard(),
          move.generation(), backup);
}

void ServerDaemonCore::FillNext(const proto::FillNext& fill) {
  if (!IsHere(fill.job_id(), fill.attempt())) return;
  const absl::Status begun =
      AskHolder([&](size_t thread) { return actions_->FillNext(thread, fill); });
  if (fill.endpoint().empty()) return;
  if (!begun.ok()) return actions_->Send(NotMoved(fill, begun));
  LogInfo("job %u: shard %u is filled from here at %s, in generation %u", fill.job_id(),
          fill.shard(), fill.endpoint(), fill.generation());
}

void ServerDaemonCore::InstallBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  if (!MakeWay(record)) return;
  const ShardId shard(install.backup().shard());
  proto::DaemonMessage reply;
  proto::BackupInstalled* const installed = reply.mutable_backup_installed();
  installed->set_job_id(record.job_id());
  installed->set_attempt(record.attempt());
  installed->set_shard(install.backup().shard());
  installed->set_generation(ShardGeneration(record.placement(), shard));
  const absl::Status taken = TakeBackup(install);
  if (taken.ok()) {
    LogInfo("job %u: shard %u is to have its second copy here", record.job_id(), shard.value());
  } else {
    installed->set_error(std::string(taken.message()));
    Forget(JobId(record.job_id()), shard, installed->generation());
  }
  actions_->Send(std::move(reply));
}

absl::Status ServerDaemonCore::TakeBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const proto::OwnBackup& backup = install.backup();
  const JobId job(record.job_id());
  const ShardId shard(backup.shard());
  if (backup.thread() >= threads_) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "shard %d of this server is to hold a second copy, it has %d", backup.thread(), threads_));
  }
  const uint32_t generation = ShardGeneration(record.placement(), shard);
  for (size_t thread = 0; thread < threads_; ++thread) {
    const absl::StatusOr<bool> removed = actions_->RemoveShard(thread, job, shard, generation);
    if (!removed.ok()) return removed.status();
  }
  if (absl::Status admitted = admission_.AdmitBackup(install); !admitted.ok()) return admitted;
  attempts_.emplace(job, record.attempt());
  return actions_->BeginInstall(backup.thread(), record, shard, ShardCopy::kEmptyBackup);
}

void ServerDaemonCore::RemoveShard(const proto::RemoveShard& remove) {
  if (!IsHere(remove.job_id(), remove.attempt())) return;
  Forget(JobId(remove.job_id()), ShardId(remove.shard()), remove.generation());
}

void ServerDaemonCore::Forget(JobId job, ShardId shard, uint32_t generation) {
  bool is_here = false;
  for (size_t thread = 0; thread < threads_; ++thread) {
    // A stopped thread holds nothing.
    const bool is_left = actions_->RemoveShard(thread, job, shard, generation).value_or(false);
    is_here = is_here || is_left;
  }
  if (is_here) return;
  admission_.ReleaseShard(job, shard);
  if (!admission_.Knows(job)) Remove(job);
}

}  // namespace strata::server
