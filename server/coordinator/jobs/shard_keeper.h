#ifndef STRATA_SERVER_COORDINATOR_JOBS_SHARD_KEEPER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_SHARD_KEEPER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/daemon_commands.h"
#include "server/coordinator/jobs/job_announcer.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/job_life.h"
#include "server/coordinator/jobs/job_placer.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/placement/shard_homes.h"

namespace strata::server {

// Places the shards of running jobs: promotes backups, replaces lost or lagging ones, and empties
// drained servers. Each change is saved before anybody is told. Owns when and where copies may be
// made, by job; the stored state of a shard is the entry's.
class ShardKeeper {
 public:
  struct Options {
    // How long the backup of a shard may keep nodes waiting before the shard continues without it.
    absl::Duration backup_patience = absl::Seconds(3);
    // The same for a backup that is being filled, whose chunks may be large.
    absl::Duration fill_patience = absl::Seconds(10);
    // Time between the loss of a copy and the next attempt to make one.
    absl::Duration backup_pause = absl::Seconds(1);
    // How long a server is not asked for copies after it refused or lagged.
    absl::Duration passed_over_for = absl::Seconds(30);
    // Copies that one server fills, or receives, at once because of draining.
    uint32_t fills_per_server = 4;
  };
  // The arguments outlive this object.
  ShardKeeper(const Options& options, const Membership* membership, const JobPlacer* placer,
              DaemonCommands* commands, JobAnnouncer* announcer, JobLife* life)
      : options_(options),
        membership_(membership),
        placer_(placer),
        commands_(commands),
        announcer_(announcer),
        life_(life) {}

  // The servers of a job that runs after a restart of the coordinator may be on their way back.
  void Restore(JobId job, absl::Time now) {
    jobs_[job].next_backup_at = now + options_.backup_pause;
  }
  // The server is a new process, so it may be asked for copies again.
  void Forgive(const std::string& server, JobId job) { jobs_[job].passed_over.erase(server); }
  // Returns why shards of the job stay on a draining server; empty: they do not.
  std::string WhyStays(const std::string& server, JobId job) const;
  void ForgetJob(JobId job) { jobs_.erase(job); }

  // A server is gone for good; `reason` names it. Other copies of its shards take over.
  void OnServerLost(std::string name, const std::string& reason, JobEntry* entry, absl::Time now);
  // Repeats the new places of moved shards to a daemon that is back.
  void TellMovedAgain(const std::string& daemon, const JobEntry& entry);
  // Primaries, and servers that fill the next backup, report the progress of their copies.
  void OnBackups(const std::string& daemon, const proto::JobCounters& counters, JobEntry* entry,
                 absl::Time now);
  void OnBackupInstalled(const std::string& daemon, const proto::BackupInstalled& message,
                         JobEntry* entry, absl::Time now);
  void OnShardNotMoved(const std::string& daemon, const proto::ShardNotMoved& message,
                       JobEntry* entry, absl::Time now);

  // Starts backups for shards that lack them.
  void AddBackups(JobEntry* entry, absl::Time now);
  // Moves shards off draining servers, one step at a time.
  void LeaveServers(std::map<JobId, JobEntry>* jobs, absl::Time now);

 private:
  struct OfJob {
    absl::Time next_backup_at = absl::InfinitePast();  // when the next backup may be made
    std::map<std::string, absl::Time> passed_over;     // by server: until when
    std::map<std::string, std::string> stays;          // by draining server: why shards stay
  };

  // Returns the servers that must not be asked for copies now.
  std::set<std::string> PassedOver(JobId job, absl::Time now) const;
  // The server that fills a backup, or the next one, reports in this generation that the copy does
  // not follow.
  void LoseBackup(const std::string& primary, ShardId shard, uint32_t generation,
                  const std::string& why, JobEntry* entry, absl::Time now);
  void LoseNext(ShardId shard, const std::string& why, JobEntry* entry, absl::Time now);
  void OnNextReport(const std::string& daemon, const proto::BackupReport& report, JobEntry* entry,
                    absl::Time now);

  void LeaveServersOf(JobEntry* entry, FillsOfServers* fills, absl::Time now);
  void Do(ShardStep step, ShardId shard, JobEntry* entry, FillsOfServers* fills, absl::Time now);
  // Begins to fill another copy of the shard.
  void Fill(ShardStep step, ShardId shard, JobEntry* entry, FillsOfServers* fills, absl::Time now);
  // Drops the next backup, which is not needed any more.
  void DropNext(ShardId shard, JobEntry* entry, absl::Time now);
  // `copy` has been replaced by another one.
  void HasLeft(const DroppedCopy& copy, JobEntry* entry, absl::Time now);

  // Saves the job with the new places of its shards, and tells the daemons concerned.
  void TellMoved(const std::vector<ShardId>& shards, JobEntry* entry, absl::Time now);
  // Makes servers drop copies, and releases servers that hold no others.
  void Forget(const std::vector<DroppedCopy>& copies, JobEntry* entry);
  void LetGo(std::string server, JobEntry* entry);
  // The server holds copies of the job's shards from now on.
  static void AddServer(const ServerShards& server, JobEntry* entry);
  bool IsConnected(const std::string& server) const;
  void SayUnprotected(JobEntry* entry);

  const Options options_;
  const Membership* const membership_;
  const JobPlacer* const placer_;
  DaemonCommands* const commands_;
  JobAnnouncer* const announcer_;
  JobLife* const life_;
  std::map<JobId, OfJob> jobs_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_SHARD_KEEPER_H_
