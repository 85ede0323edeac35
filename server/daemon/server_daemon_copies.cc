// The part of ServerDaemon that sees to copies of shards of running jobs, and to their nodes.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/exchange/shard_generation.h"
#include "common/job/job.h"
#include "common/log.h"
#include "server/daemon/server_daemon.h"

namespace strata::server {

void ServerDaemon::MoveShard(const proto::MoveShard& move) {
  const auto here = jobs_.find(move.job_id());
  if (here == jobs_.end() || here->second != move.attempt()) return;
  const JobId job(move.job_id());
  const ShardId shard(move.shard());
  absl::Status moved = absl::NotFoundError("no thread here holds the shard");
  for (size_t i = 0; i < shards_.size() && absl::IsNotFound(moved); ++i) {
    moved = move.backup_endpoint().empty()
                ? shards_[i]->Promote(job, shard, move.generation())
                : shards_[i]->FillBackup(job, shard, move.generation(), move.backup_endpoint(),
                                         move.backup_is_whole());
  }
  if (moved.ok()) {
    const std::string backup =
        move.backup_endpoint().empty() ? "no second copy"
        : move.backup_is_whole()
            ? absl::StrCat("its second copy at ", move.backup_endpoint())
            : absl::StrCat("a second copy to fill at ", move.backup_endpoint());
    return LogInfo("job %u: shard %u lies here in generation %u, with %s", move.job_id(),
                   move.shard(), move.generation(), backup);
  }
  TellNotMoved(move, moved);
}

// `asked`: a MoveShard or FillNext.
template <typename Message>
void ServerDaemon::TellNotMoved(const Message& asked, const absl::Status& why) {
  proto::DaemonMessage reply;
  proto::ShardNotMoved* not_moved = reply.mutable_shard_not_moved();
  not_moved->set_job_id(asked.job_id());
  not_moved->set_attempt(asked.attempt());
  not_moved->set_shard(asked.shard());
  not_moved->set_generation(asked.generation());
  not_moved->set_error(std::string(why.message()));
  session_->Send(std::move(reply));
}

void ServerDaemon::FillNext(const proto::FillNext& fill) {
  const auto here = jobs_.find(fill.job_id());
  if (here == jobs_.end() || here->second != fill.attempt()) return;
  absl::Status begun = absl::NotFoundError("no thread here holds the shard");
  for (size_t i = 0; i < shards_.size() && absl::IsNotFound(begun); ++i) {
    begun = shards_[i]->FillNext(JobId(fill.job_id()), ShardId(fill.shard()), fill.generation(),
                                 fill.endpoint());
  }
  if (!begun.ok() && !fill.endpoint().empty()) return TellNotMoved(fill, begun);
  if (fill.endpoint().empty()) return;
  LogInfo("job %u: shard %u is filled from here at %s, in generation %u", fill.job_id(),
          fill.shard(), fill.endpoint(), fill.generation());
}

void ServerDaemon::InstallBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const auto here = jobs_.find(record.job_id());
  if (here != jobs_.end() && here->second > record.attempt()) return;
  // That it was to be removed was lost on the way.
  if (here != jobs_.end() && here->second < record.attempt()) Remove(record.job_id());
  const ShardId shard(install.backup().shard());
  proto::DaemonMessage reply;
  proto::BackupInstalled* installed = reply.mutable_backup_installed();
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
  session_->Send(std::move(reply));
}

absl::Status ServerDaemon::TakeBackup(const proto::InstallBackup& install) {
  const proto::JobRecord& record = install.record();
  const proto::OwnBackup& backup = install.backup();
  const JobId job(record.job_id());
  const ShardId shard(backup.shard());
  if (backup.thread() >= shards_.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("shard %d of this server is to hold a second copy, it has %d",
                        backup.thread(), shards_.size()));
  }
  const uint32_t generation = ShardGeneration(record.placement(), shard);
  for (auto& thread : shards_) {
    const absl::StatusOr<bool> removed = thread->RemoveShard(job, shard, generation);
    if (!removed.ok()) return removed.status();
  }
  if (absl::Status admitted = admission_.AdmitBackup(install); !admitted.ok()) return admitted;
  if (!jobs_.contains(record.job_id())) {
    jobs_[record.job_id()] = record.attempt();
    checkpoints_->Begin(record);
  }
  return shards_[backup.thread()]->BeginInstall(record, shard, ShardCopy::kEmptyBackup).status();
}

void ServerDaemon::RemoveShard(const proto::RemoveShard& remove) {
  const auto here = jobs_.find(remove.job_id());
  if (here == jobs_.end() || here->second != remove.attempt()) return;
  Forget(JobId(remove.job_id()), ShardId(remove.shard()), remove.generation());
}

void ServerDaemon::ChangeView(const proto::ViewChange& change) {
  const auto here = jobs_.find(change.job_id());
  if (here != jobs_.end() && here->second != change.attempt()) return;
  absl::Status changed = absl::NotFoundError("the job is not here");
  for (const auto& thread : shards_) {
    const absl::Status on_thread = thread->ChangeView(change);
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
  session_->Send(std::move(reply));
}

void ServerDaemon::Forget(JobId job, ShardId shard, uint32_t generation) {
  bool is_here = false;
  for (auto& thread : shards_) {
    const absl::StatusOr<bool> left = thread->RemoveShard(job, shard, generation);
    is_here = is_here || (left.ok() && *left);
  }
  if (is_here) return;
  admission_.ReleaseShard(job, shard);
  if (!admission_.Knows(job)) Remove(job.value());
}

}  // namespace strata::server
